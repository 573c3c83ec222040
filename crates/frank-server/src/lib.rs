//! HTTP endpoint: routes, streaming, authentication, limits.
