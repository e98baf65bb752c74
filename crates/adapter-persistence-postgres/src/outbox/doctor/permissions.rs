//! Whether this process's user may do in the database what it is there for.
//!
//! A database has either one user that does everything, or the roles of `migrations/roles`. Which one it is stands in the
//! catalog: `roles.sql` gives the outbox to a role `…owner`, beside which stand the others of the same prefix.

use application_core::ports::{Finding, OutboxCheckPort, StoreError};
use async_trait::async_trait;
use sqlx::Row;

use super::server::{finding, rows};
use crate::{Database, sql::Arguments};

/// A role of `migrations/roles`, without the prefix that an outbox has for all of its roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboxRole {
    /// Of services that record events.
    Appender,
    /// Of relays, which also reap, clean up and watch.
    Relay,
    /// Of services that consume.
    Consumer,
    /// Of those who act on events.
    Operator,
    /// Of those who look.
    Reader,
}

impl OutboxRole {
    /// Every role.
    pub const ALL: [Self; 5] = [Self::Appender, Self::Relay, Self::Consumer, Self::Operator, Self::Reader];

    /// Its name behind the prefix.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Appender => "appender",
            Self::Relay => "relay",
            Self::Consumer => "consumer",
            Self::Operator => "operator",
            Self::Reader => "reader",
        }
    }
}

/// The rights that each role has: the list in `grants.sql`, which is read there so that it stands nowhere twice.
const GRANTS: &str = include_str!("../../../../../migrations/roles/grants.sql");

/// The rows of the list; empty if the file has none any more, which a test finds.
fn given() -> &'static str {
    let list = GRANTS.split_once("FROM (VALUES").and_then(|(_, rest)| rest.split_once(") r (roles, rights, object)"));
    list.map(|(list, _)| list).unwrap_or_default()
}

/// The roles of this outbox, each with whether the user is a member of it; no rows: there are none.
const ROLES: &str = "SELECT p.part, r.rolname::text, quote_ident(r.rolname), pg_has_role(r.oid, 'MEMBER'), quote_ident(current_user) \
       FROM pg_class c JOIN pg_roles o ON o.oid = c.relowner \
      CROSS JOIN unnest($1) WITH ORDINALITY AS p (part, place) \
       JOIN pg_roles r ON r.rolname = left(o.rolname::text, -5) || p.part \
      WHERE c.oid = to_regclass('outbox_event') AND right(o.rolname::text, 5) = 'owner' ORDER BY p.place";

/// What the user lacks of the rights of some roles: the role has not got it, or the user has not got the role.
/// An object or column that is missing is the schema's finding, and none here.
const LACKING: &str = r"
    WITH given AS MATERIALIZED (
        SELECT g.role::name AS role, split_part(r.object, ' ', 1) AS kind, o.name, m.found[1] AS privilege, m.found[2] AS columns
          FROM (VALUES $1) r (roles, rights, object)
         CROSS JOIN LATERAL string_to_table(r.roles, ' ') AS p (part)
          JOIN unnest($2, $3) AS g (part, role) ON g.part = p.part
         CROSS JOIN LATERAL string_to_table(substr(r.object, strpos(r.object, ' ') + 1), ', ') AS o (name)
         CROSS JOIN LATERAL regexp_matches(r.rights, '(\w+)(?: \(([^)]*)\))?', 'g') AS m (found)
    ), wanted AS (
        SELECT g.role, g.kind, c.relname::text AS object, g.privilege, a.attname::text AS part,
               has_column_privilege(current_user, c.oid, a.attnum, g.privilege) AS mine,
               has_column_privilege(g.role, c.oid, a.attnum, g.privilege) AS its
          FROM given g
          JOIN pg_class c ON c.oid = to_regclass(g.name)
         CROSS JOIN LATERAL string_to_table(g.columns, ', ') AS s (name)
          JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = s.name AND NOT a.attisdropped
         WHERE g.kind = 'TABLE'
         UNION ALL
        SELECT g.role, g.kind, c.relname::text, g.privilege, NULL,
               has_table_privilege(current_user, c.oid, g.privilege), has_table_privilege(g.role, c.oid, g.privilege)
          FROM given g JOIN pg_class c ON c.oid = to_regclass(g.name)
         WHERE g.kind = 'TABLE' AND g.columns IS NULL
         UNION ALL
        SELECT g.role, g.kind, c.relname::text, g.privilege, NULL,
               has_sequence_privilege(current_user, c.oid, g.privilege), has_sequence_privilege(g.role, c.oid, g.privilege)
          FROM given g JOIN pg_class c ON c.oid = to_regclass(g.name)
         WHERE g.kind = 'SEQUENCE'
         UNION ALL
        SELECT g.role, g.kind, p.oid::regprocedure::text, g.privilege, NULL,
               has_function_privilege(current_user, p.oid, g.privilege), has_function_privilege(g.role, p.oid, g.privilege)
          FROM given g JOIN pg_proc p ON p.proname = g.name AND pg_function_is_visible(p.oid)
         WHERE g.kind = 'FUNCTION'
    ), lacks AS (
        SELECT w.role, w.kind, w.object, w.privilege || coalesce(' (' || string_agg(w.part, ', ' ORDER BY w.part) || ')', '') AS privilege
          FROM wanted w WHERE NOT w.mine AND NOT w.its
         GROUP BY w.role, w.kind, w.object, w.privilege
    )
    SELECT format('the role %s lacks %s', l.role, string_agg(l.privilege, ', ' ORDER BY l.privilege)), l.object,
           format('GRANT %s ON %s %s TO %I', string_agg(l.privilege, ', ' ORDER BY l.privilege), l.kind, l.object, l.role)
      FROM lacks l GROUP BY l.role, l.kind, l.object
     UNION ALL
    SELECT DISTINCT format('the user %s does not have the rights of a role', current_user), w.role::text,
           CASE WHEN NOT pg_has_role(w.role, 'MEMBER') THEN format('GRANT %I TO %I', w.role, current_user)
                WHEN current_setting('server_version_num')::int < 160000 THEN format('ALTER ROLE %I INHERIT', current_user)
                ELSE format('GRANT %I TO %I WITH INHERIT TRUE', w.role, current_user) END
      FROM wanted w WHERE NOT w.mine AND w.its
     ORDER BY 2, 1";

/// What a user that does everything needs. A row is also locked by UPDATE's permission.
const USED: [(&str, &str); 16] = [
    ("outbox_audit", "SELECT, INSERT"),
    ("outbox_claim", "SELECT, INSERT, UPDATE, DELETE"),
    ("outbox_doctor", "SELECT"),
    ("outbox_due_floor", "SELECT, INSERT, UPDATE, DELETE"),
    ("outbox_event", "SELECT, INSERT, UPDATE, DELETE"),
    ("outbox_event_state", "SELECT"),
    ("outbox_inbox", "SELECT, INSERT, UPDATE, DELETE"),
    ("outbox_inbox_parked", "SELECT, INSERT, UPDATE, DELETE"),
    ("outbox_lane", "SELECT, INSERT, UPDATE, DELETE"),
    ("outbox_leader", "SELECT, INSERT, UPDATE"),
    ("outbox_pause", "SELECT, INSERT, UPDATE, DELETE"),
    ("outbox_relay", "SELECT, INSERT, UPDATE, DELETE"),
    ("outbox_retention", "SELECT, INSERT, UPDATE"),
    ("outbox_schema_history", "SELECT"),
    ("app_schema_history", "SELECT"),
    ("outbox_event_sequence", "SELECT, USAGE"),
];

/// What is missing is the schema's finding, and no relation here.
const UNUSABLE: &str = "SELECT 'this role lacks ' || string_agg(privilege, ', ' ORDER BY privilege), relation, \
            format('GRANT %s ON %s%s TO %I', string_agg(privilege, ', ' ORDER BY privilege), \
                   CASE kind WHEN 'S' THEN 'SEQUENCE ' ELSE '' END, relation, current_user) \
       FROM (SELECT used.relation, c.relkind AS kind, btrim(privilege) AS privilege, c.oid \
               FROM unnest($1, $2) AS used (relation, privileges) \
               JOIN pg_class c ON c.oid = to_regclass(used.relation) \
              CROSS JOIN LATERAL string_to_table(used.privileges, ',') AS privilege) wanted \
      WHERE NOT CASE kind WHEN 'S' THEN has_sequence_privilege(oid, privilege) ELSE has_table_privilege(oid, privilege) END \
      GROUP BY relation, kind \
     UNION ALL \
     SELECT 'this role may not call a function', p.oid::regprocedure::text, \
            format('GRANT EXECUTE ON FUNCTION %s TO %I', p.oid::regprocedure, current_user) \
       FROM pg_proc p WHERE starts_with(p.proname, 'outbox_') AND pg_function_is_visible(p.oid) \
        AND NOT has_function_privilege(p.oid, 'EXECUTE') \
      ORDER BY 2";

/// Whether this process's user has its rights: where there are roles, those of the roles that it is a member of; otherwise
/// those of a user that does everything.
#[derive(Debug, Clone)]
pub struct PermissionCheck {
    database: Database,
    needed: Vec<OutboxRole>,
}

/// A role as the catalog has it.
struct Found {
    part: String,
    name: String,
    quoted: String,
    is_members: bool,
    user: String,
}

impl PermissionCheck {
    /// Looks as the user of this database's connections.
    #[must_use]
    pub const fn new(database: Database) -> Self {
        Self { database, needed: Vec::new() }
    }

    /// The user needs these roles, whatever it is a member of; none: those that it is a member of.
    #[must_use]
    pub fn needing(mut self, roles: &[OutboxRole]) -> Self {
        self.needed = roles.to_vec();
        self
    }

    async fn roles(&self) -> Result<Vec<Found>, StoreError> {
        let parts = Arguments::new().texts(OutboxRole::ALL.map(OutboxRole::as_str));
        rows(&self.database, &parts.fill(ROLES), |row| {
            let (part, name, quoted) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            Ok(Found { part, name, quoted, is_members: row.try_get(3)?, user: row.try_get(4)? })
        })
        .await
    }

    async fn of_one_user(&self) -> Result<Vec<Finding>, StoreError> {
        let used =
            Arguments::new().texts(USED.map(|(relation, _)| relation)).texts(USED.map(|(_, privileges)| privileges));
        rows(&self.database, &used.fill(UNUSABLE), finding).await
    }

    async fn of(&self, roles: &[&Found]) -> Result<Vec<Finding>, StoreError> {
        let (parts, names) = (roles.iter().map(|role| role.part.as_str()), roles.iter().map(|role| role.name.as_str()));
        let arguments = Arguments::new().own(given()).texts(parts).texts(names);
        rows(&self.database, &arguments.fill(LACKING), finding).await
    }
}

#[async_trait]
impl OutboxCheckPort for PermissionCheck {
    fn name(&self) -> &'static str {
        "permissions"
    }

    async fn look(&self) -> Result<Vec<Finding>, StoreError> {
        let all = self.roles().await?;
        // Fewer have some other purpose, whatever they are called.
        if all.len() < OutboxRole::ALL.len() {
            return self.of_one_user().await;
        }
        let needed = |role: &&Found| match &self.needed[..] {
            [] => role.is_members,
            needed => needed.iter().any(|wanted| wanted.as_str() == role.part),
        };
        let needed: Vec<_> = all.iter().filter(needed).collect();
        if !needed.is_empty() {
            return self.of(&needed).await;
        }
        // The owner needs no role; who got every right by hand needs none either.
        let lacking = self.of(&all.iter().collect::<Vec<_>>()).await?;
        Ok(if lacking.is_empty() { lacking } else { no_member(&all).into_iter().collect() })
    }
}

/// What it is for, nobody but its operator knows.
fn no_member(roles: &[Found]) -> Option<Finding> {
    let user = &roles.first()?.user;
    let names: Vec<_> = roles.iter().map(|role| role.quoted.as_str()).collect();
    Some(Finding {
        problem: "this user is a member of no role of the outbox".to_owned(),
        subject: user.clone(),
        cure: format!("GRANT … TO {user}, with the role of what it is for: {}", names.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_rights_is_found_in_the_script_and_names_every_role() {
        let given = given();
        assert!(given.trim_start().starts_with("--") && given.trim_end().ends_with(')'), "{given}");
        for role in OutboxRole::ALL {
            assert!(given.contains(role.as_str()), "{role:?}");
        }
    }
}
