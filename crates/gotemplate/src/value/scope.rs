//! Freeing maps that contain themselves.

use std::{cell::RefCell, marker::PhantomData};

use super::{Map, map::WeakMap};

thread_local! {
    /// The maps that were given a list or map while a scope is active.
    static WATCHED: RefCell<Option<Vec<WeakMap>>> = const { RefCell::new(None) };
}

/// Frees reference cycles that templates create.
///
/// With a function such as [`sprig`](crate::sprig)'s `set`, a template can put a map into itself. Values are reference
/// counted, so that map would never be freed. While a scope is active, the maps of this thread that could contain themselves
/// are recorded; when the outermost scope is dropped, those that still exist are emptied.
///
/// Enter a scope before you create the data of an untrusted template, and drop it when neither the data nor the results are
/// needed any more: maps that the template changed are empty afterwards.
///
/// ```
/// use gotemplate::{Options, Scope, Template, Value, sprig};
///
/// let options = Options::new().functions(sprig::functions());
/// let template = Template::parse_with("cycle", r#"{{ $_ := set . "self" . }}done"#, &options)?;
/// let scope = Scope::enter();
/// let data = Value::map([("name", Value::str("web"))]);
/// assert_eq!(template.execute(&data)?, b"done");
/// drop(scope);
/// # Ok::<(), gotemplate::Error>(())
/// ```
#[derive(Debug)]
pub struct Scope {
    outermost: bool,
    /// Bound to its thread, as the values are.
    not_send: PhantomData<*const ()>,
}

impl Scope {
    /// Starts a scope. A scope within another one does nothing.
    #[must_use]
    pub fn enter() -> Self {
        WATCHED.with_borrow_mut(|watched| {
            let outermost = watched.is_none();
            watched.get_or_insert_default();
            Self {
                outermost,
                not_send: PhantomData,
            }
        })
    }

    /// Records a map that was given a list or map.
    pub(super) fn watch(map: &Map) {
        WATCHED.with_borrow_mut(|watched| {
            if let Some(watched) = watched
                && !watched.last().is_some_and(|last| last.is(map))
            {
                watched.extend(map.downgrade());
            }
        });
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        if self.outermost {
            let watched = WATCHED.take().unwrap_or_default();
            watched.iter().for_each(WeakMap::clear);
        }
    }
}
