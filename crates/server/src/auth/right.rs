//! What a route needs, and which roles have it: the table of `docs/src/security.md`.

use fleet::identity::Role;

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Any caller that is known.
    Known,
    /// The Flux paths of one cluster.
    Poll,
    /// What came of it on one cluster: events and reports.
    Tell,
    Read,
    /// Writes; those of an operator within its scope.
    Write,
    /// Kinds and identities.
    Administer,
    /// The log as it is written.
    Follow,
    /// The whole content of the store, digests of tokens included.
    Copy,
    /// New clusters.
    Register,
}

impl Right {
    /// The roles that have it.
    pub const fn roles(self) -> &'static [Role] {
        use Role::{Admin, Cluster, Join, Mirror, Operator, Reader};
        match self {
            Right::Known => &Role::ALL,
            Right::Poll => &[Cluster, Reader, Operator, Admin],
            Right::Tell => &[Cluster, Admin],
            Right::Read => &[Reader, Operator, Admin],
            Right::Write => &[Operator, Admin],
            Right::Administer => &[Admin],
            Right::Follow => &[Reader, Operator, Admin, Mirror],
            Right::Copy => &[Admin, Mirror],
            Right::Register => &[Join],
        }
    }

    pub fn allows(self, role: Role) -> bool {
        self.roles().contains(&role)
    }
}
