//! LLDP neighbours of one node: cables, and nothing else.

use serde_json::{Map, Value};

use super::json::{About, nameless};
use super::told::{Told, cable, end};
use topology::import::neighbours_of;

/// What `lldpcli -f json show neighbors` printed; none when it is not that.
pub(super) fn read(fields: &Map<String, Value>, about: About<'_>) -> Option<Result<Told, String>> {
    fields.get("lldp")?.as_object()?;
    let Some(node) = about.name(None) else {
        return Some(Err(nameless()));
    };
    Some(
        neighbours_of(node, &Value::Object(fields.clone())).map(|neighbours| {
            let cables = neighbours.iter().map(|seen| {
                cable([
                    end(&seen.node, &seen.interface),
                    end(&seen.other, &seen.other_port),
                ])
            });
            Told {
                cables: cables.collect(),
                ..Told::default()
            }
        }),
    )
}
