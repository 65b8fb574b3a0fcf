//! Inks of figures.

/// Rules that turn the inks of figures into ones for a dark page.
pub fn dark_rules() -> String {
    "svg [fill=\"#000000\"]{fill:#e6e6e6}".to_string()
}
