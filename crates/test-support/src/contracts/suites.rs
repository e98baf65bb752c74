//! The macros that turn the cases of a suite into tests.

/// Turns the named cases of a suite into tests of the harness, in a module named after the suite.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_tests {
    ($suite:ident, $harness:ty, [$($case:ident),+ $(,)?]) => {
        mod $suite {
            use super::*;

            $(
                #[tokio::test]
                async fn $case() {
                    $crate::contracts::run($crate::contracts::$suite::$case::<$harness>()).await;
                }
            )+
        }
    };
}

/// All suites, for an adapter that implements every port.
#[macro_export]
macro_rules! outbox_contracts {
    ($harness:ty) => {
        $crate::unit_of_work_contract!($harness);
        $crate::outbox_append_contract!($harness);
        $crate::outbox_store_contract!($harness);
        $crate::outbox_without_history_contract!($harness);
        $crate::outbox_maintenance_contract!($harness);
        $crate::outbox_operations_contract!($harness);
        $crate::outbox_audit_contract!($harness);
        $crate::outbox_pause_contract!($harness);
        $crate::outbox_statistics_contract!($harness);
        $crate::inbox_contract!($harness);
        $crate::leadership_contract!($harness);
        $crate::relay_registry_contract!($harness);
    };
}

/// The cases of [`contracts::unit_of_work`](crate::contracts::unit_of_work) as tests of the harness.
#[macro_export]
macro_rules! unit_of_work_contract {
    ($harness:ty) => {
        $crate::contract_tests!(
            unit_of_work,
            $harness,
            [
                a_commit_keeps_everything_that_was_done_in_it,
                a_drop_undoes_everything_that_was_done_in_it,
                transactions_that_were_dropped_leave_room_for_others,
                open_transactions_do_not_see_each_other,
                an_empty_transaction_commits,
            ]
        );
    };
}

/// The cases of [`contracts::outbox_append`](crate::contracts::outbox_append) as tests of the harness.
#[macro_export]
macro_rules! outbox_append_contract {
    ($harness:ty) => {
        $crate::contract_tests!(
            outbox_append,
            $harness,
            [
                events_of_one_append_keep_their_order,
                ids_do_not_decide_the_order,
                several_appends_of_one_transaction_keep_their_order,
                events_of_several_aggregates_in_one_append_keep_the_order_of_each,
                one_id_under_two_aggregate_types_is_two_aggregates,
                payload_and_headers_are_kept_byte_for_byte,
                a_new_event_is_pending_and_due,
                an_empty_append_changes_nothing,
                an_id_that_is_in_the_outbox_is_a_duplicate_and_nothing_of_its_append_stays,
                an_id_twice_in_one_append_is_a_duplicate,
                an_id_that_is_not_committed_yet_is_waited_for_and_then_a_duplicate,
                the_id_of_a_published_event_is_a_duplicate,
                a_transaction_in_which_an_append_failed_cannot_be_committed,
                a_dropped_transaction_leaves_nothing,
                uncommitted_events_are_invisible,
                a_second_appender_to_an_aggregate_waits_for_the_commit_of_the_first,
                a_second_appender_goes_on_when_the_first_rolls_back,
                an_appender_to_another_aggregate_does_not_wait,
                appends_to_the_same_aggregates_in_opposite_orders_all_end,
            ]
        );
    };
}

/// The cases of [`contracts::outbox_store`](crate::contracts::outbox_store) as tests of the harness.
#[macro_export]
macro_rules! outbox_store_contract {
    ($harness:ty) => {
        $crate::contract_tests!(
            outbox_store,
            $harness,
            [
                an_empty_outbox_gives_an_empty_claim,
                a_claimed_event_is_invisible_to_a_second_claim,
                events_behind_a_leased_head_are_not_claimed,
                a_claim_takes_no_more_lanes_than_asked,
                a_run_is_no_longer_than_asked,
                a_claim_takes_no_more_events_than_asked,
                a_claim_takes_no_more_bytes_than_asked,
                a_lane_that_does_not_fit_stays_due,
                an_event_larger_than_the_byte_limit_is_handed_out_alone,
                lanes_that_waited_longest_are_claimed_first,
                an_overdue_claim_takes_one_lane_that_has_been_due_for_long,
                concurrent_claims_hand_out_each_event_to_one,
                a_token_is_good_for_one_claim,
                a_lane_that_an_appender_holds_is_passed_over,
                an_acknowledgement_publishes_the_run_and_ends_the_claim,
                the_next_events_of_a_lane_flow_after_an_acknowledgement,
                lanes_of_one_claim_may_be_settled_one_after_the_other,
                an_aggregate_whose_lane_was_emptied_flows_again,
                events_appended_while_their_lane_is_leased_are_neither_lost_nor_handed_out_early,
                a_settlement_postpones_a_lane_that_an_appender_holds_and_frees_it_later,
                a_settlement_that_is_repeated_settles_and_charges_nothing_again,
                freeing_lanes_of_which_some_are_free_already_does_no_harm,
                failing_and_releasing_postpone_as_well,
                a_release_publishes_the_confirmed_start_and_gives_the_rest_back_untouched,
                a_released_lane_is_due_after_its_delay_and_not_before,
                a_retry_counts_one_attempt_and_is_due_after_its_backoff_and_not_before,
                a_run_ends_before_an_event_that_waits_for_its_backoff,
                a_head_that_waits_for_its_backoff_waits_although_an_operator_made_its_lane_due,
                attempts_add_up_over_retries,
                block_makes_the_event_dead_and_stops_its_aggregate_alone,
                skip_makes_the_event_dead_and_lets_its_aggregate_go_on,
                one_call_may_fail_lanes_in_different_ways,
                a_token_that_was_never_given_changes_nothing,
                the_token_of_a_reaped_claim_changes_nothing,
                the_token_of_a_reaped_claim_does_not_touch_the_claim_after_it,
                the_token_of_a_settled_claim_changes_nothing,
                a_claim_settles_nothing_of_another,
                a_confirmed_event_that_is_not_there_is_an_error,
                a_renewed_lease_ends_later,
                a_lease_that_ran_out_is_good_until_it_is_reaped,
            ]
        );
    };
}

/// The cases of [`contracts::outbox_without_history`](crate::contracts::outbox_without_history) as tests of the harness.
#[macro_export]
macro_rules! outbox_without_history_contract {
    ($harness:ty) => {
        $crate::contract_tests!(
            outbox_without_history,
            $harness,
            [
                an_acknowledged_event_is_gone_and_its_lane_takes_new_ones,
                the_confirmed_start_of_a_released_run_is_gone_and_the_rest_flows,
                the_confirmed_start_of_a_failed_run_is_gone_and_the_failed_one_stays,
                a_lost_claim_deletes_nothing,
                a_deleted_event_cannot_be_replayed,
                the_id_of_a_deleted_event_is_free_again,
                the_figures_count_what_is_left,
            ]
        );
    };
}

/// The cases of [`contracts::outbox_maintenance`](crate::contracts::outbox_maintenance) as tests of the harness.
#[macro_export]
macro_rules! outbox_maintenance_contract {
    ($harness:ty) => {
        $crate::contract_tests!(
            outbox_maintenance,
            $harness,
            [
                an_expired_lease_returns_its_events_without_touching_their_attempts,
                a_failed_event_returns_as_failed_with_its_attempts,
                a_lease_that_runs_is_not_reaped,
                a_claim_that_was_renewed_in_time_or_late_is_not_reaped,
                a_claim_that_was_settled_is_not_reaped,
                what_was_settled_of_an_expired_claim_stays_settled,
                one_call_reaps_no_more_claims_than_asked,
                a_lane_that_an_appender_holds_is_returned_by_a_later_call,
                from_the_third_expiry_on_the_run_is_the_head_alone,
                an_acknowledgement_resets_the_expiries,
                a_head_that_outlives_too_many_leases_goes_dead_and_blocks,
                a_head_that_outlives_too_many_leases_is_skipped_where_its_type_says_so,
                published_events_go_when_their_retention_is_over_and_not_before,
                open_and_dead_events_stay_however_old,
                one_call_removes_no_more_than_a_batch_and_the_oldest_first,
                a_term_that_is_not_the_running_one_removes_nothing,
                a_purge_removes_old_history_batch_by_batch_and_records_each,
                until_when_published_history_is_gone_is_known_whoever_removed_it,
                a_purge_removes_what_was_resolved_and_never_what_is_open_or_dead,
                the_id_of_a_removed_event_is_free_again,
            ]
        );
    };
}

/// The cases of [`contracts::outbox_operations`](crate::contracts::outbox_operations) as tests of the harness.
#[macro_export]
macro_rules! outbox_operations_contract {
    ($harness:ty) => {
        $crate::contract_tests!(
            outbox_operations,
            $harness,
            [
                find_tells_all_five_statuses_apart,
                an_event_that_is_not_there_is_not_found,
                only_an_event_in_flight_shows_a_holder_and_the_end_of_a_lease,
                an_event_names_the_head_that_it_waits_behind,
                a_list_filters_by_status_type_and_aggregate,
                a_list_filters_by_event_type_class_age_and_resolution,
                a_list_filters_by_a_range_of_ids_and_by_the_time_of_the_last_confirm,
                a_list_goes_on_page_by_page_in_the_order_of_ids,
                blocked_aggregates_are_listed_oldest_head_first_with_reason_and_depth,
                a_requeued_head_flows_again_with_its_attempts_to_come,
                a_skipped_event_is_requeued_although_its_lane_is_gone,
                a_requeued_event_goes_before_those_that_are_open,
                an_event_requeued_below_a_leased_run_is_delivered_after_it,
                a_requeue_on_a_leased_lane_survives_the_end_of_the_lease,
                a_discarded_head_lets_the_rest_flow_and_stays_dead,
                a_lane_whose_last_event_is_discarded_takes_new_ones,
                a_discarded_event_can_be_requeued,
                a_requeue_of_what_is_unresolved_revives_nothing_that_was_resolved,
                a_dead_event_behind_a_leased_run_is_discarded_and_what_follows_flows,
                a_replayed_event_is_delivered_again_and_says_so,
                a_replayed_event_goes_before_those_that_are_open,
                an_event_replayed_while_its_lane_is_leased_is_delivered_after_the_run,
                one_action_on_many_events_keeps_the_order_of_each_aggregate,
                a_replay_in_batches_sends_each_event_of_an_aggregate_once_and_in_order,
                events_of_one_batch_are_sent_again_in_the_order_of_their_aggregate_whatever_their_ids,
                a_second_identical_action_changes_nothing,
                an_action_from_a_status_that_it_does_not_start_from_changes_nothing,
            ]
        );
    };
}

/// The cases of [`contracts::outbox_audit`](crate::contracts::outbox_audit) as tests of the harness.
#[macro_export]
macro_rules! outbox_audit_contract {
    ($harness:ty) => {
        $crate::contract_tests!(
            outbox_audit,
            $harness,
            [
                an_action_is_recorded_with_who_when_what_why_and_which,
                every_action_has_its_name_and_a_reason_is_optional,
                what_changed_nothing_is_not_recorded,
                only_the_events_that_were_changed_are_recorded,
                a_change_whose_record_is_refused_is_not_made,
                the_record_goes_on_page_by_page_newest_first,
                the_record_of_one_event_leaves_the_others_out,
            ]
        );
    };
}

/// The cases of [`contracts::outbox_pause`](crate::contracts::outbox_pause) as tests of the harness.
#[macro_export]
macro_rules! outbox_pause_contract {
    ($harness:ty) => {
        $crate::contract_tests!(
            outbox_pause,
            $harness,
            [
                events_of_a_paused_type_wait_and_others_flow,
                a_resumed_type_is_delivered_whole_and_in_order,
                the_pause_of_everything_holds_every_type_back_until_it_is_lifted,
                each_pause_is_lifted_by_itself,
                what_is_in_flight_finishes_and_what_follows_waits,
                what_fails_while_it_is_paused_keeps_its_attempts_and_its_backoff,
                a_resume_does_not_wake_what_is_dead,
                what_is_requeued_while_it_is_paused_waits_for_the_resume,
                a_second_pause_or_resume_changes_and_records_nothing,
            ]
        );
    };
}

/// The cases of [`contracts::outbox_statistics`](crate::contracts::outbox_statistics) as tests of the harness.
#[macro_export]
macro_rules! outbox_statistics_contract {
    ($harness:ty) => {
        $crate::contract_tests!(
            outbox_statistics,
            $harness,
            [
                an_empty_outbox_counts_nothing,
                every_open_event_is_counted_once_by_its_status,
                a_failed_event_in_flight_is_counted_as_in_flight_alone,
                the_oldest_pending_age_is_that_of_what_waits_longest,
                dead_events_what_is_behind_them_and_replays_are_no_backlog,
                the_oldest_blocked_age_is_that_of_the_dead_event_that_was_stored_first_until_it_is_resolved,
                unresolved_dead_events_are_grouped_by_class_and_types,
                what_was_published_lately_is_counted_with_its_lag,
                a_replay_is_counted_and_lags_behind_nothing,
                the_oldest_in_flight_age_is_that_of_the_oldest_claim_that_stands,
                a_renewal_does_not_shorten_the_oldest_in_flight_age,
                relays_that_hold_leases_are_counted_by_name,
                a_lease_that_has_ended_is_shown_until_it_is_reaped,
                the_leader_of_a_role_is_shown_and_that_its_term_is_over,
            ]
        );
    };
}

/// The cases of [`contracts::inbox`](crate::contracts::inbox) as tests of the harness.
#[macro_export]
macro_rules! inbox_contract {
    ($harness:ty) => {
        $crate::contract_tests!(
            inbox,
            $harness,
            [
                an_event_is_seen_first_once,
                an_event_is_seen_first_once_within_one_transaction,
                consumers_remember_apart,
                a_rollback_forgets,
                a_second_record_waits_and_is_a_duplicate_if_the_first_commits,
                a_second_record_waits_and_is_the_first_if_the_first_rolls_back,
                a_parked_aggregate_stays_parked_until_it_is_let_through,
                parking_again_keeps_the_first_reason,
                parking_concerns_one_consumer_and_one_aggregate,
            ]
        );
    };
}

/// The cases of [`contracts::leadership`](crate::contracts::leadership) as tests of the harness.
#[macro_export]
macro_rules! leadership_contract {
    ($harness:ty) => {
        $crate::contract_tests!(
            leadership,
            $harness,
            [
                one_holder_leads_at_a_time,
                of_many_that_run_for_a_role_one_gets_it,
                roles_have_leaders_of_their_own,
                the_leader_renews_within_its_term,
                an_expired_role_passes_on_in_a_higher_term,
                a_leader_that_comes_back_late_gets_a_higher_term,
                the_work_of_an_old_term_is_refused,
                a_leader_that_resigns_makes_room_at_once,
            ]
        );
    };
}

/// The cases of [`contracts::relay_registry`](crate::contracts::relay_registry) as tests of the harness.
#[macro_export]
macro_rules! relay_registry_contract {
    ($harness:ty) => {
        $crate::contract_tests!(
            relay_registry,
            $harness,
            [
                a_relay_that_reports_is_listed_by_name_without_a_lease,
                a_relay_that_misses_three_reports_is_gone_until_it_reports_again,
                the_interval_of_each_relay_decides_when_it_is_gone,
                what_a_relay_pauses_is_listed_with_reason_and_age_until_it_reports_without,
                a_relay_that_withdraws_is_not_listed_and_a_former_run_withdraws_nothing,
                what_breaks_a_bound_is_refused,
                relays_that_are_gone_for_long_are_forgotten_in_batches_and_others_are_not,
                who_does_not_lead_forgets_no_relay,
            ]
        );
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_is_named_in_the_macro_of_its_suite() {
        let macros: String = include_str!("suites.rs").split_whitespace().collect();
        let suites = [
            ("unit_of_work", include_str!("unit_of_work.rs")),
            ("outbox_append", include_str!("outbox_append.rs")),
            ("outbox_store", include_str!("outbox_store.rs")),
            ("outbox_without_history", include_str!("outbox_without_history.rs")),
            ("outbox_maintenance", include_str!("outbox_maintenance.rs")),
            ("outbox_operations", include_str!("outbox_operations.rs")),
            ("outbox_audit", include_str!("outbox_audit.rs")),
            ("outbox_pause", include_str!("outbox_pause.rs")),
            ("outbox_statistics", include_str!("outbox_statistics.rs")),
            ("inbox", include_str!("inbox.rs")),
            ("leadership", include_str!("leadership.rs")),
            ("relay_registry", include_str!("relay_registry.rs")),
        ];
        for (suite, text) in suites {
            let (_, list) = macros.split_once(&format!("contract_tests!({suite},$harness,[")).expect("it has a macro");
            let (list, _) = list.split_once(']').expect("the list ends");
            let named: Vec<_> = list.split(',').filter(|name| !name.is_empty()).collect();
            let written: Vec<_> = text
                .lines()
                .filter_map(|line| line.strip_prefix("pub async fn "))
                .filter_map(|line| line.split('<').next())
                .collect();
            assert!(written.len() > 4, "{suite} has hardly a case");
            assert_eq!(named, written, "in {suite}");
        }
    }
}
