//! The billing line that an agent puts at the head of its system prompt. It changes with every request, so that a
//! prompt with it would never be found in the prefix cache, and it is not meant for the model.

/// With what the line begins, in any case.
const NAME: &str = "x-anthropic-billing-header:";

/// `text` without billing lines at its head, and without the empty lines that parted them from the rest.
#[must_use]
pub fn without_billing_lines(text: &str) -> &str {
    let mut rest = text;
    while is_billing_line(rest) {
        let end = rest.find('\n').map_or(rest.len(), |at| at + 1);
        rest = rest[end..].trim_start_matches(['\r', '\n']);
    }
    rest
}

fn is_billing_line(text: &str) -> bool {
    text.get(..NAME.len()).is_some_and(|head| head.eq_ignore_ascii_case(NAME))
}

#[cfg(test)]
mod tests {
    use super::without_billing_lines;

    #[test]
    fn lines_at_the_head_are_dropped_and_nothing_else() {
        let check = |text: &str, expected: &str| assert_eq!(without_billing_lines(text), expected);
        check("x-anthropic-billing-header: v=1; cch=0a1;\nBe brief.", "Be brief.");
        check("X-Anthropic-Billing-Header: v=1\r\n\r\n  Be brief.", "  Be brief.");
        check("x-anthropic-billing-header: a\nx-anthropic-billing-header: b\n\nHi", "Hi");
        check("x-anthropic-billing-header: v=1; cch=0a1;", "");
        check(
            "Be brief.\nx-anthropic-billing-header: v=1",
            "Be brief.\nx-anthropic-billing-header: v=1",
        );
        check("\n\nBe brief.", "\n\nBe brief.");
        check("x-anthropic-billing-headé", "x-anthropic-billing-headé");
        check("", "");
    }
}
