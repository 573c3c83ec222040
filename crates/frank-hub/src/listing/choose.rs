//! Which files of a listing make a payload. Never fetches, and never picks one of several that fit equally.

mod error;
mod finding;

use super::glob;
use super::names::named;
use super::near::near;
use super::picks::{self, Term};
use super::quants::key;
use super::{Chosen, Group, Listing, Role, groups};

pub use error::ChooseError;
use error::LISTED_MAX;
use finding::{matching, names_to_ask, of_file, of_quant};

/// The quant that is taken where none is asked for and there are several.
const DEFAULT_QUANT: &str = "Q4_K_M";
/// Which projector is taken where there are several of one model, the first that is there.
const PROJECTOR_QUANTS: &[&str] = &["F16", "BF16", "Q8_0", "F32"];

/// Chooses the files of one payload.
///
/// `pick` is a list with commas between:
/// - a quant (`Q4_K_M`, `q4_k_m`, `UD-Q4_K_XL`), in any case and however it is cut into files. Makers' marks (`UD-`, `i1-`)
///   may be left out where only one fits;
/// - a file by its path, its name, or its name without `.gguf`; a piece stands for all pieces. A glob (`*`, `?`);
/// - a role: `mmproj`, `draft`, `template`, `config`, with `=` and a quant, file or glob where there are several;
/// - `-mmproj` or `-template`: without it.
///
/// Without a quant or file it is the only model, or else its `Q4_K_M`. A model brings its projector and its chat template,
/// where there are some, unless files were named, which come alone. Draft heads and configs come when they are asked for.
/// # Errors
/// [`ChooseError`], with what there is and what is near it.
pub fn choose(listing: &Listing, pick: Option<&str>) -> Result<Chosen, ChooseError> {
    let groups = groups(listing);
    let terms = pick.map_or(Ok(Vec::new()), picks::parse)?;
    let mut choice = Choice { listing, groups: &groups, chosen: Vec::new() };
    let with_companions = choice.take_model(&terms)?;
    choice.take_roles(&terms)?;
    choice.check_one(pick.unwrap_or_default())?;
    if with_companions {
        choice.take_companions(&terms);
    }
    // What lies in no folder keeps its name where another is called the same.
    choice.chosen.sort_by_key(|(role, group)| (*role, group.files[0].path.matches('/').count()));
    choice.chosen.iter().try_for_each(|(_, group)| whole(&listing.source, group))?;
    named(listing, &groups, &choice.chosen)
}

/// A choice in the making.
struct Choice<'a> {
    listing: &'a Listing,
    groups: &'a [Group],
    chosen: Vec<(Role, &'a Group)>,
}

impl<'a> Choice<'a> {
    /// Takes what quants, files and globs name, or the default. True when the model was not named by its files.
    fn take_model(&mut self, terms: &[Term<'_>]) -> Result<bool, ChooseError> {
        let named: Vec<&str> = terms.iter().filter_map(Term::files).collect();
        if named.is_empty() {
            let wants_none = terms.contains(&Term::Without(Role::Model));
            let is_asked = terms.iter().any(|term| matches!(term, Term::Role(Role::Model, _)));
            if !wants_none && !is_asked {
                let model = self.default_model()?;
                self.take(model);
            }
            return Ok(!wants_none);
        }
        let mut by_quant = true;
        for text in named {
            let by_file = self.by_file(text);
            by_quant &= by_file.is_empty();
            let found = if by_file.is_empty() { self.by_quant(text)? } else { by_file };
            if !glob::is_glob(text) && found.len() > 1 {
                return Err(self.ambiguous(text, &found));
            }
            found.into_iter().for_each(|group| self.take(group));
        }
        Ok(by_quant)
    }

    /// Refuses what is no payload: nothing, or several models.
    fn check_one(&self, pick: &str) -> Result<(), ChooseError> {
        let models = self.chosen.iter().filter(|(role, group)| is_model(*role, group));
        let models: Vec<&Group> = models.map(|(_, group)| *group).collect();
        match models.len() {
            _ if self.chosen.is_empty() => Err(ChooseError::BadPick { text: pick.to_owned() }),
            0 | 1 => Ok(()),
            _ => Err(self.ambiguous(pick, &models)),
        }
    }

    /// Takes what is asked for by its role.
    fn take_roles(&mut self, terms: &[Term<'_>]) -> Result<(), ChooseError> {
        for term in terms {
            match *term {
                Term::Role(role, Some(which)) => {
                    let of_role = self.of_role(role);
                    let found = matching(&of_role, which);
                    match (found.as_slice(), glob::is_glob(which) && role != Role::Model) {
                        ([], _) => return Err(self.not_found(which, &of_role)),
                        ([_], _) | (_, true) => {
                            found.into_iter().for_each(|group| self.take(group))
                        }
                        (several, false) => return Err(self.ambiguous(which, several)),
                    }
                }
                Term::Role(Role::Model, None) => {
                    let model = self.default_model()?;
                    self.take(model);
                }
                Term::Role(Role::Config, None) => {
                    let configs = self.of_role(Role::Config);
                    if configs.is_empty() {
                        return Err(self.not_found(Role::Config.word(), &[]));
                    }
                    configs.into_iter().for_each(|group| self.take(group));
                }
                Term::Role(role, None) => {
                    let companion = self.companion(role)?;
                    self.take(companion);
                }
                Term::Files(_) | Term::Without(_) => {}
            }
        }
        Ok(())
    }

    /// Takes what comes with a model without being asked for.
    fn take_companions(&mut self, terms: &[Term<'_>]) {
        for role in [Role::Projector, Role::Template] {
            let is_settled = terms.iter().any(|term| match *term {
                Term::Without(other) | Term::Role(other, _) => other == role,
                Term::Files(_) => false,
            });
            if !is_settled && let Ok(companion) = self.companion(role) {
                self.take(companion);
            }
        }
    }

    fn take(&mut self, group: &'a Group) {
        if !self.chosen.iter().any(|(_, taken)| std::ptr::eq(*taken, group)) {
            // What a URL or path names is the model, whatever it is called.
            let unknown = if self.is_hub() { Role::Config } else { Role::Model };
            self.chosen.push((group.role.unwrap_or(unknown), group));
        }
    }

    fn is_hub(&self) -> bool {
        self.listing.source.starts_with("hf:")
    }

    fn of_role(&self, role: Role) -> Vec<&'a Group> {
        self.groups.iter().filter(|group| group.role == Some(role)).collect()
    }

    fn models(&self) -> Vec<&'a Group> {
        self.groups
            .iter()
            .filter(|group| group.role.is_some_and(|role| is_model(role, group)))
            .collect()
    }

    fn default_model(&self) -> Result<&'a Group, ChooseError> {
        let models = self.models();
        match models.as_slice() {
            [] if self.groups.len() == 1 && !self.is_hub() => Ok(&self.groups[0]),
            [] => {
                let have = self.groups.iter().map(|group| group.files[0].path.clone()).collect();
                Err(ChooseError::NoModel { origin: self.listing.source.clone(), have })
            }
            [only] => Ok(only),
            several => match of_quant(several, DEFAULT_QUANT).as_slice() {
                [one] => Ok(one),
                [] => Err(self.ambiguous("", several)),
                fitting => Err(self.ambiguous("", fitting)),
            },
        }
    }

    /// What has a file of this path or name, or of paths that fit the glob.
    fn by_file(&self, text: &str) -> Vec<&'a Group> {
        let all: Vec<&Group> = self.groups.iter().collect();
        of_file(&all, text)
    }

    fn by_quant(&self, text: &str) -> Result<Vec<&'a Group>, ChooseError> {
        let found = of_quant(&self.models(), text);
        if found.is_empty() {
            return Err(self.not_found(text, &self.models()));
        }
        Ok(found)
    }

    /// The one file of `role` that goes with the model.
    fn companion(&self, role: Role) -> Result<&'a Group, ChooseError> {
        let model = self.chosen.iter().find(|(role, group)| is_model(*role, group));
        let model = model.map(|(_, group)| *group);
        let (all, models) = (self.of_role(role), self.models());
        let fitting: Vec<&Group> =
            all.iter().copied().filter(|group| goes_with(group, model, &models)).collect();
        let preferred = match role {
            Role::Projector => {
                PROJECTOR_QUANTS.iter().find_map(|quant| only(&of_quant(&fitting, quant)))
            }
            Role::Draft => {
                let quant = model.and_then(|model| model.quant.as_deref());
                quant.and_then(|quant| only(&of_quant(&fitting, quant)))
            }
            Role::Template => {
                let usual = |group: &&&Group| group.files[0].path == "chat_template.jinja";
                fitting.iter().find(usual).copied()
            }
            Role::Model | Role::Config => None,
        };
        match (only(&fitting).or(preferred), fitting.as_slice()) {
            (Some(one), _) => Ok(one),
            (None, []) => Err(self.not_found(role.word(), &all)),
            (None, several) => Err(self.ambiguous(role.word(), several)),
        }
    }

    fn not_found(&self, pick: &str, among: &[&Group]) -> ChooseError {
        let have = names_to_ask(among);
        let mut known = have.clone();
        known.extend(among.iter().map(|group| group.files[0].file_name().to_owned()));
        let (origin, pick) = (self.listing.source.clone(), pick.to_owned());
        ChooseError::NotFound { near: near(&pick, &known), origin, pick, have }
    }

    fn ambiguous(&self, pick: &str, fitting: &[&Group]) -> ChooseError {
        let (origin, pick) = (self.listing.source.clone(), pick.to_owned());
        ChooseError::Ambiguous { origin, pick, candidates: names_to_ask(fitting) }
    }
}

impl<'a> Term<'a> {
    fn files(&self) -> Option<&'a str> {
        match *self {
            Term::Files(text) => Some(text),
            Term::Role(..) | Term::Without(_) => None,
        }
    }
}

fn is_model(role: Role, group: &Group) -> bool {
    role == Role::Model && group.is_gguf()
}

fn only<'a>(groups: &[&'a Group]) -> Option<&'a Group> {
    match groups {
        [one] => Some(one),
        _ => None,
    }
}

/// Whether a projector, draft or template is for `model`: there is only one model, it names no other, or it names this.
fn goes_with(group: &Group, model: Option<&Group>, models: &[&Group]) -> bool {
    let Some(model) = model else { return true };
    let is_of = |model: &&Group| {
        let (model, mine) = (key(&model.model), key(&group.stem()));
        !model.is_empty() && mine.contains(&model)
    };
    let named: Vec<&Group> = models.iter().copied().filter(is_of).collect();
    // Of two models of which one begins like the other, the longer name tells.
    let longest = named.iter().map(|model| model.model.len()).max();
    named.is_empty()
        || named.iter().any(|other| {
            Some(other.model.len()) == longest && key(&other.model) == key(&model.model)
        })
}

fn whole(origin: &str, group: &Group) -> Result<(), ChooseError> {
    if let Some(paths) = group.twice() {
        return Err(ChooseError::SamePiece { paths: paths.map(str::to_owned) });
    }
    let missing: Vec<String> = group.missing().take(LISTED_MAX).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let n = group.missing().count();
    let (origin, name) = (origin.to_owned(), group.stem());
    Err(ChooseError::Missing { origin, name, scheme: group.scheme.to_string(), n, missing })
}
