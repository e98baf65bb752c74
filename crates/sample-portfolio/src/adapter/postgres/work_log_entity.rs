//! The row of a work log, and the way from and to the domain.

use application_core::ports::StoreError;
use sea_orm::{ActiveValue::Set, entity::prelude::*};
use time::OffsetDateTime;

use crate::domain::{Minutes, PortfolioId, Title, Version, WorkLogId, WorkLogSnapshot, WorkLogStatus};

/// Table `work_log`; the bounds are in `migrations/app/V1__work_log.sql`.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "work_log")]
pub(super) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    id: Uuid,
    portfolio_id: Uuid,
    title: String,
    planned_minutes: i32,
    spent_minutes: Option<i32>,
    status: String,
    version: i32,
    reserved_at: OffsetDateTime,
    changed_at: OffsetDateTime,
}

/// None: a work log refers to no other table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(super) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Everything that is stored of a work log.
pub(super) fn to_row(state: &WorkLogSnapshot) -> Result<ActiveModel, StoreError> {
    let WorkLogSnapshot { id, portfolio, title, planned, status, version, reserved_at, changed_at } = state;
    Ok(ActiveModel {
        id: Set(id.as_uuid()),
        portfolio_id: Set(portfolio.as_uuid()),
        title: Set(title.as_str().to_owned()),
        planned_minutes: Set(to_integer(planned.get())?),
        spent_minutes: Set(status.spent().map(|spent| to_integer(spent.get())).transpose()?),
        status: Set(status.as_str().to_owned()),
        version: Set(to_integer(version.get())?),
        reserved_at: Set(*reserved_at),
        changed_at: Set(*changed_at),
    })
}

/// Reads a row; what the domain would refuse is corrupt, and never passed over.
pub(super) fn from_row(row: Model) -> Result<WorkLogSnapshot, StoreError> {
    let id = row.id;
    let corrupt = |column| StoreError::Corrupt { table: "work_log", column, id: id.to_string() };
    let minutes = |column, number: i32| Minutes::try_new(number.into()).map_err(|_refused| corrupt(column));
    let spent = row.spent_minutes.map(|number| minutes("spent_minutes", number)).transpose()?;
    Ok(WorkLogSnapshot {
        id: WorkLogId::new(id),
        portfolio: PortfolioId::new(row.portfolio_id),
        title: Title::try_new(row.title).map_err(|_refused| corrupt("title"))?,
        planned: minutes("planned_minutes", row.planned_minutes)?,
        status: read_status(&row.status, spent).ok_or_else(|| corrupt("status"))?,
        version: Version::new(u32::try_from(row.version).map_err(|_refused| corrupt("version"))?),
        reserved_at: row.reserved_at,
        changed_at: row.changed_at,
    })
}

/// The status of that name; only a completed one has minutes spent.
pub(super) fn read_status(name: &str, spent: Option<Minutes>) -> Option<WorkLogStatus> {
    let status = match spent {
        Some(spent) => WorkLogStatus::Completed { spent },
        None => [WorkLogStatus::Reserved, WorkLogStatus::Started, WorkLogStatus::Cancelled]
            .into_iter()
            .find(|status| status.as_str() == name)?,
    };
    (status.as_str() == name).then_some(status)
}

pub(super) fn to_integer(number: u32) -> Result<i32, StoreError> {
    i32::try_from(number).map_err(|error| StoreError::Refused { source: error.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Model {
        Model {
            id: Uuid::from_u128(1),
            portfolio_id: Uuid::from_u128(2),
            title: "Paint the fence".to_owned(),
            planned_minutes: 90,
            spent_minutes: Some(75),
            status: "COMPLETED".to_owned(),
            version: 3,
            reserved_at: OffsetDateTime::UNIX_EPOCH,
            changed_at: OffsetDateTime::UNIX_EPOCH,
        }
    }

    fn corrupt_column(row: Model) -> &'static str {
        match from_row(row) {
            Err(StoreError::Corrupt { table: "work_log", column, id }) => {
                assert_eq!(id, Uuid::from_u128(1).to_string());
                column
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_row_becomes_a_work_log_and_the_same_row_again() {
        let state = from_row(row()).expect("readable");
        assert_eq!(to_row(&state).expect("storable"), ActiveModel::from(row()).reset_all());
    }

    #[test]
    fn a_row_that_the_domain_refuses_is_corrupt_by_column() {
        assert_eq!(corrupt_column(Model { title: " ".to_owned(), ..row() }), "title");
        assert_eq!(corrupt_column(Model { planned_minutes: 0, ..row() }), "planned_minutes");
        assert_eq!(corrupt_column(Model { spent_minutes: Some(-1), ..row() }), "spent_minutes");
        assert_eq!(corrupt_column(Model { version: -1, ..row() }), "version");
        for (status, spent_minutes) in [("DONE", None), ("COMPLETED", None), ("STARTED", Some(5))] {
            let row = Model { status: status.to_owned(), spent_minutes, ..row() };
            assert_eq!(corrupt_column(row), "status");
        }
    }
}
