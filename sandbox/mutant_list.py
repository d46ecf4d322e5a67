"""The dangerous flips: what each line holds up, and which tests notice."""

from __future__ import annotations

from typing import Final

from sandbox.mutants import Mutant

_LEDGER: Final = "domain/ledger.py"
_HOURS: Final = "domain/hours.py"
_SUBMIT: Final = "usecases/submit.py"
_AGGREGATE: Final = "usecases/aggregate.py"
_LEDGER_STORE: Final = "adapters/ledger_store.py"
_USAGE_STORE: Final = "adapters/usage_store.py"
_DYNAMODB: Final = "adapters/dynamodb.py"
_MARKETPLACE: Final = "adapters/marketplace.py"


def _unit(module: str, *tests: str) -> tuple[str, ...]:
    path = f"tests/unit/test_{module}.py"
    return tuple(f"{path}::{test}" for test in tests) or (path,)


MUTANTS: Final = (
    # --- conditions of writes ------------------------------------------------------------------------------
    Mutant(
        "create-without-condition",
        _LEDGER_STORE,
        'ConditionExpression="attribute_not_exists(licenseArn)",',
        "",
        "two first folds at once: the slower one wipes out the record of the faster",
        _unit("aggregator", "test_a_lost_race_restarts_from_the_first_read"),
    ),
    Mutant(
        "swap-without-version",
        _LEDGER_STORE,
        'ConditionExpression="#version = :before",',
        'ConditionExpression="#version >= :before",',
        "a fold or an answer computed from a state that is gone replaces the newer one",
        _unit("aggregator", "test_a_lost_race_restarts_from_the_first_read"),
    ),
    Mutant(
        "batch-swap-without-version",
        _LEDGER_STORE,
        """AND "{LEDGER_SORT_KEY}"=? AND "version"=?'""",
        """AND "{LEDGER_SORT_KEY}"=? AND "version">=?'""",
        "an intent is written over a record that another fold has replaced: old bytes are sent",
        _unit("submitter", "test_an_intent_that_lost_its_race_is_not_sent"),
    ),
    Mutant(
        "clear-a-rewritten-row-by-update",
        _USAGE_STORE,
        "enumerate(FOLDED_ATTRIBUTES)",
        "enumerate(FOLDED_ATTRIBUTES[2:])",
        "a row with allocations that was rewritten after its fold is cleared: never billed",
        _unit("cleanup", "test_rows_with_allocations_are_compared_as_a_whole_and_cleaned_too"),
    ),
    Mutant(
        "clear-a-rewritten-row-by-statement",
        _USAGE_STORE,
        "    for name in FOLDED_ATTRIBUTES:\n",
        "    for name in FOLDED_ATTRIBUTES[1:]:\n",
        "a row that was rewritten between the cleanup's read and its write is cleared",
        _unit("cleanup", "test_a_row_rewritten_since_the_fold_stays_pending"),
    ),
    Mutant(
        "clear-without-comparing",
        "usecases/clean.py",
        "row.pending_bucket == cleanup.group.bucket and row.digest() == expected.digest",
        "row.pending_bucket == cleanup.group.bucket",
        "a row that was rewritten before its cleanup is cleared unfolded",
        _unit("cleanup", "test_a_row_rewritten_since_the_fold_stays_pending"),
    ),
    Mutant(
        "cleanup-trusts-an-older-fold",
        "usecases/clean.py",
        "refold=record is None or record.digest != cleanup.digest",
        "refold=False",
        "a row rewritten, folded and written back is cleared under its first fold: it is in no total",
        _unit("cleanup", "test_a_row_that_was_rewritten_folded_and_written_back_is_folded_once_more"),
    ),
    Mutant(
        "settle-a-changed-input",
        _LEDGER_STORE,
        "    for name in INPUT_ATTRIBUTES:\n",
        "    for name in INPUT_ATTRIBUTES[1:]:\n",
        "a direct-submit input that changed while it was adopted loses its mark: never billed",
        _unit("direct_submit", "test_an_input_that_changes_while_it_is_adopted_is_adopted_again"),
    ),
    Mutant(
        "settle-a-changed-input-with-allocations",
        _LEDGER_STORE,
        "enumerate(INPUT_ATTRIBUTES)",
        "enumerate(INPUT_ATTRIBUTES[2:])",
        "an input whose allocations changed while it was adopted loses its mark: never billed",
        _unit("mutant_gaps", "test_an_input_whose_allocations_change_while_it_is_adopted_keeps_its_mark"),
    ),
    Mutant(
        "finalize-without-expiry",
        "adapters/subscribers_store.py",
        'ConditionExpression="#flag = :flag AND #expiry = :expiry",',
        'ConditionExpression="#flag = :flag AND #expiry >= :expiry",',
        "a licence that was revived and revoked anew loses its last hour",
        _unit("mutant_gaps", "test_a_licence_that_was_revoked_anew_keeps_its_new_hour"),
    ),
    Mutant(
        "subscriber-write-without-version",
        "adapters/subscribers_store.py",
        'condition = "#version = :read"',
        'condition = "#version >= :read"',
        "two lifecycle events at once: one is lost",
        _unit(
            "subscription_stores", "TestContractOfSubscribers::test_a_write_over_another_version_is_refused"
        ),
    ),
    # --- reads ---------------------------------------------------------------------------------------------
    Mutant(
        "inconsistent-record-read",
        _LEDGER_STORE,
        "Key=to_wire(key), ConsistentRead=True)",
        "Key=to_wire(key), ConsistentRead=False)",
        "a fold starts from a record that is already gone and is lost in its races",
        _unit("mutant_gaps", "test_every_read_that_decides_about_money_is_consistent"),
    ),
    Mutant(
        "inconsistent-rows-read",
        _USAGE_STORE,
        """            ConsistentRead=True,
        ):
            for item""",
        """            ConsistentRead=False,
        ):
            for item""",
        "a fold misses rows that were written just before; they are cleaned by nobody or billed late",
        _unit("mutant_gaps", "test_every_read_that_decides_about_money_is_consistent"),
    ),
    Mutant(
        "inconsistent-batch-read",
        _DYNAMODB,
        '"ConsistentRead": True}}',
        '"ConsistentRead": False}}',
        "the submitter and the cleanup act on records and rows as they were",
        _unit("mutant_gaps", "test_every_read_that_decides_about_money_is_consistent"),
    ),
    Mutant(
        "one-page-only",
        _DYNAMODB,
        'if "LastEvaluatedKey" not in page:',
        "if page:",
        "what lies beyond the first megabyte is neither folded nor sent",
        _unit("mutant_gaps", "test_a_group_of_many_pages_is_folded_whole"),
    ),
    Mutant(
        "discovery-ignores-further-pages",
        "usecases/discovery.py",
        """        if not page.more:
            return


def pending_work_of_license(""",
        """        return


def pending_work_of_license(""",
        "licences after the first page of the hour's index are never discovered",
        _unit("discoverer", "test_discovery_costs_by_groups_not_by_rows"),
    ),
    Mutant(
        "unprocessed-keys-forgotten",
        _DYNAMODB,
        'request = answer.get("UnprocessedKeys") or {}',
        "request = {}",
        "records that a throttled read left out are not sent, and nobody is told",
        _unit("cleanup", "test_keys_that_stay_unprocessed_fail_the_message"),
    ),
    Mutant(
        "rows-before-record",
        _AGGREGATE,
        """        before = work.ledger.get(group)
        rows = work.usage.group_rows(group)
""",
        """        rows = iter(list(work.usage.group_rows(group)))
        before = work.ledger.get(group)
""",
        "a fold that misses a late row replaces the one that has it: the row is lost",
        _unit("mutant_gaps", "test_a_fold_reads_the_record_before_the_rows"),
    ),
    # --- folding -------------------------------------------------------------------------------------------
    Mutant(
        "fold-pending-rows-only",
        "domain/folding.py",
        "        if row.belongs_to(group):",
        "        if row.belongs_to(group) and row.pending_bucket is not None:",
        "a late row replaces the total instead of joining it: everything before it is unbilled",
        _unit("folding", "test_all_rows_are_folded_pending_or_not_and_the_pending_ones_are_named"),
    ),
    Mutant(
        "no-group-filter",
        "domain/rows.py",
        'if self.attributes.get("dimension") != group.dimension:',
        "if False:",
        "rows of another dimension under the same key prefix are billed to this group",
        _unit("rows", "test_a_row_is_its_groups_by_attributes_key_and_mark"),
    ),
    Mutant(
        "bad-rows-billed",
        "domain/folding.py",
        "    if checked.reason is not None:\n        before =",
        "    if checked.reason is not None:\n        sums.valid += checked.quantity\n        before =",
        "a refused row's quantity is billed after all",
        _unit("folding", "test_bad_rows_block_the_group_by_name_and_leave_a_valid_part"),
    ),
    Mutant(
        "mixed-groups-sent",
        "domain/folding.py",
        "if sums.allocated and sums.unallocated:",
        "if False:",
        "a group whose allocations do not cover its quantity is sent and sinks its request",
        _unit("folding", "test_a_group_level_refusal_has_no_valid_part"),
    ),
    Mutant(
        "fold-digest-without-quantity",
        "domain/rows.py",
        '    "quantity",\n    "usageAllocations",',
        '    "usageAllocations",',
        "a rewritten quantity looks like the same row: never folded again, and cleared",
        _unit("rows", "test_the_digest_changes_with_every_attribute_that_decides"),
    ),
    Mutant(
        "same-fold-ignores-required-refold",
        _LEDGER,
        """    if record.refold_required:
        return False
""",
        "",
        "a record released with outdated allocations waits for a refold that never counts",
        _unit("ledger_folds", "test_allocations_that_changed_while_frozen_require_another_fold"),
    ),
    Mutant(
        "fold-of-a-future-hour",
        _LEDGER,
        "    if group.hour > now:\n        raise ValueError",
        "    if False:\n        raise ValueError",
        "rows of an hour that has not begun are refused for good by a clock that is behind",
        _unit("ledger_folds", "test_an_hour_that_has_not_begun_is_not_folded"),
    ),
    Mutant(
        "no-cleanup-of-a-known-fold",
        _AGGREGATE,
        "        if fold.pending and work.clean(",
        "        if fold.pending and after is not before and work.clean(",
        "a lost cleanup never heals: its rows are discovered for ever and age out",
        _unit("aggregator", "test_the_same_fold_again_sends_cleanup_only_so_that_a_lost_one_heals"),
    ),
    # --- the record's life ---------------------------------------------------------------------------------
    Mutant(
        "quantity-of-a-frozen-record-changes",
        _LEDGER,
        "        content_stale=_content(fold) != _content(record),\n",
        "        content_stale=_content(fold) != _content(record),\n        quantity=fold.billable,\n",
        "a second send carries another quantity: refused as a duplicate, or billed beside the first",
        _unit("ledger_folds", "test_a_late_fold_never_changes_what_was_sent_and_is_surfaced"),
    ),
    Mutant(
        "late-fold-reopens",
        _LEDGER,
        "    if record.pending and record.attempt is None:\n",
        "    if record.pending:\n",
        "a late row changes the bytes of an attempt that may have been honoured",
        _unit("ledger_folds", "test_a_late_fold_never_changes_what_was_sent_and_is_surfaced"),
    ),
    Mutant(
        "refused-of-unknown-outcome-reopens",
        _LEDGER,
        "return refused and (record.attempt is None or not record.attempt.unknown)",
        "return refused",
        "a record that may have been honoured is sent again with another quantity",
        _unit("ledger_folds", "test_a_refused_record_of_unknown_outcome_never_reopens"),
    ),
    Mutant(
        "surfaced-is-added-up",
        _LEDGER,
        "return self.total - self.billed - self.pending_quantity",
        "return self.total - self.billed - self.pending_quantity + self.rejected",
        "bad rows are surfaced twice: the books do not balance",
        _unit("ledger_folds", "test_a_group_with_bad_rows_is_created_blocked_with_its_valid_part_pending"),
    ),
    Mutant(
        "billed-is-the-new-total",
        _LEDGER,
        """            billed=record.quantity,
            record_id=""",
        """            billed=record.total,
            record_id=""",
        "late rows count as billed although they were never sent",
        _unit("submitter", "test_an_answer_meets_a_record_that_was_refolded_meanwhile"),
    ),
    Mutant(
        "release-after-an-unknown-outcome",
        _LEDGER,
        "case Released() if not attempt.unknown:",
        "case Released():",
        "a throttled retry reopens a record whose first send was honoured: its quantity may change",
        _unit("ledger_attempts", "test_no_refusal_reopens_or_closes_what_may_have_been_honoured"),
    ),
    Mutant(
        "refuse-after-an-unknown-outcome",
        _LEDGER,
        "case Refused(reason=name) if not attempt.unknown:",
        "case Refused(reason=name):",
        "a record that may have been billed is surfaced as refused",
        _unit("ledger_attempts", "test_no_refusal_reopens_or_closes_what_may_have_been_honoured"),
    ),
    Mutant(
        "answer-of-another-attempt",
        _LEDGER,
        "if attempt is None or attempt.attempt_id != attempt_id or record.status",
        "if attempt is None or record.status",
        "a late answer to bytes that are gone closes the record that replaced them",
        _unit("ledger_attempts", "test_an_answer_to_another_attempt_changes_nothing"),
    ),
    Mutant(
        "no-success-after-expiry",
        _LEDGER,
        """    if isinstance(outcome, Billed):
        return replace(""",
        """    if isinstance(outcome, Billed) and record.pending:
        return replace(""",
        "what the Marketplace bills is reported as lost",
        _unit("expiry", "test_a_later_success_wins_over_expiry"),
    ),
    Mutant(
        "duplicate-counts-as-billed",
        _LEDGER,
        "return _answered(record, MeteringStatus.DUPLICATE_RECORD, SurfacedReason.POSSIBLE_UNDER_BILLING)",
        "return replace(_answered(record, MeteringStatus.DUPLICATE_RECORD, None), billed=record.quantity)",
        "another quantity than ours stands at AWS and nobody learns of it",
        _unit("ledger_attempts", "test_a_duplicate_is_never_billed_by_itself"),
    ),
    Mutant(
        "expired-without-outcome-unknown",
        _LEDGER,
        """    if record.attempt is not None:
        return _closed(record, MeteringStatus.OUTCOME_UNKNOWN, SurfacedReason.OUTCOME_UNKNOWN)
""",
        "",
        "a record that may be billed is reported as certainly not billed: the seller bills it by hand, twice",
        _unit("expiry", "test_a_record_whose_outcome_is_unknown_is_closed_as_such"),
    ),
    Mutant(
        "open-attempt-forgets-unknown",
        _LEDGER,
        "replace(record.attempt, started_at=now, open=True, unknown=True)",
        "replace(record.attempt, started_at=now, open=True)",
        "a crashed send is forgotten: the next refusal reopens bytes that may have been honoured",
        _unit(
            "ledger_attempts",
            "test_identical_bytes_keep_their_attempt_id_and_are_of_unknown_outcome_from_then_on",
        ),
    ),
    Mutant(
        "now-as-timestamp",
        _LEDGER,
        "return self.sent_timestamp or self.group.hour",
        "return self.sent_timestamp or (self.attempt.started_at if self.attempt else self.group.hour)",
        "each retry carries a fresh timestamp: AWS takes it for new usage",
        _unit("submitter", "test_a_pending_record_is_billed_with_quantity_timestamp_and_identity"),
    ),
    Mutant(
        "ttl-on-pending-records",
        _LEDGER,
        "return replace(record, attempt=replace(attempt, open=False, unknown=True))",
        "return replace(record, attempt=replace(attempt, open=False, unknown=True), ttl=ttl)",
        "DynamoDB deletes a record that was never billed",
        _unit("mutant_gaps", "test_a_record_of_unknown_outcome_has_no_ttl"),
    ),
    # --- time ----------------------------------------------------------------------------------------------
    Mutant(
        "deadline-inclusive",
        _HOURS,
        "return hour <= now < self.deadline(hour)",
        "return hour <= now <= self.deadline(hour)",
        "a record of exactly 24 hours, or at 06:00 on the 1st, sinks its whole request",
        _unit("hours", "test_a_record_is_taken_below_its_age_and_before_its_months_wall"),
    ),
    Mutant(
        "no-month-wall",
        _HOURS,
        "return min(hour + self.billable_hours * HOUR, month_wall(hour))",
        "return hour + self.billable_hours * HOUR",
        "previous-month records are sent after 06:00 on the 1st and block the run",
        _unit("hours", "test_a_record_is_taken_below_its_age_and_before_its_months_wall"),
    ),
    Mutant(
        "month-wall-at-seven",
        _HOURS,
        "MONTH_WALL_HOUR: Final = 6",
        "MONTH_WALL_HOUR: Final = 7",
        "an hour of previous-month usage is sent too late and refused",
        _unit("hours", "test_a_month_closes_at_six_on_the_first_of_the_next"),
    ),
    Mutant(
        "lock-kept-at-month-end",
        _HOURS,
        "if is_previous_month(hour, now) and now.hour >= MONTH_UNLOCK_HOUR:",
        "if False:",
        "with a long lock the month's last hours are never metered",
        _unit("hours", "test_meter_mode_takes_complete_unlocked_billable_hours"),
    ),
    Mutant(
        "metering-an-unfinished-hour",
        _HOURS,
        "return hour <= floor_hour(now) - lock * HOUR",
        "return hour <= floor_hour(now)",
        "an hour is sent before it is over: the rest of it is late",
        _unit("hours", "test_meter_mode_takes_complete_unlocked_billable_hours"),
    ),
    Mutant(
        "age-out-too-early",
        _HOURS,
        "return now >= self.raw_deadline(hour)",
        "return now >= self.raw_deadline(hour) - HOUR",
        "rows are given up while they could still be billed",
        _unit("hours", "test_raw_rows_age_out_with_the_window_and_previous_months_at_the_wall"),
    ),
    Mutant(
        "lookback-too-short",
        _HOURS,
        "count = self.billable_hours + LOOKBACK_PAST_WINDOW // HOUR",
        "count = self.billable_hours",
        "what a long outage left behind stays pending for ever, silently",
        _unit("hours", "test_whatever_is_past_its_deadline_is_looked_for_during_seven_days"),
    ),
    Mutant(
        "expiry-skips-a-turn",
        _HOURS,
        "hour.hour % EXPIRY_TURNS == turn",
        "hour.hour % EXPIRY_TURNS == 0",
        "what an outage left far past the window stays pending, silently",
        _unit("hours", "test_three_runs_of_expiry_read_the_whole_lookback_whenever_they_start"),
    ),
    Mutant(
        "shards-overlap",
        "usecases/discover.py",
        "if hours_back % AGEOUT_SHARDS != shard or",
        "if hours_back % (AGEOUT_SHARDS + 1) != shard or",
        "every eighth hour belongs to no shard and never ages out",
        _unit("discoverer", "test_ageout_shards_are_disjoint_and_complete_out_to_seven_days_past_the_window"),
    ),
    Mutant(
        "flush-without-final-mark",
        "usecases/discover.py",
        "yield GroupWork(work.group, final_flush=True) if isinstance(work, GroupWork) else work",
        "yield work",
        "what comes after the last flush cannot be told from ordinary late usage",
        _unit("discoverer", "test_what_is_written_after_the_final_flush_is_surfaced_as_such"),
    ),
    # --- sending -------------------------------------------------------------------------------------------
    Mutant(
        "any-result-is-success",
        _MARKETPLACE,
        'case "Success":',
        "case str():",
        "what the Marketplace refuses counts as billed",
        _unit("submitter", "test_customer_not_subscribed_is_terminal_and_surfaced"),
    ),
    Mutant(
        "missing-answer-is-released",
        _MARKETPLACE,
        "outcomes.get(_identity(record), Unknown())",
        "outcomes.get(_identity(record), Unprocessed())",
        "a record that the answer leaves out may have been honoured, and is taken for untouched",
        _unit(
            "submitter", "test_a_record_without_a_known_status_is_frozen_and_sent_again_with_the_same_bytes"
        ),
    ),
    Mutant(
        "internal-error-is-a-refusal",
        _MARKETPLACE,
        'if code == "InternalServiceErrorException" or status == 0 or status >= _SERVER_FAULT:',
        "if False:",
        "an internal error after the effect reopens what was honoured",
        _unit("submitter", "test_an_internal_error_leaves_the_outcome_unknown_and_the_record_billed_once"),
    ),
    Mutant(
        "lost-answer-is-a-refusal",
        _MARKETPLACE,
        "        except BotoCoreError as error:\n            return RequestFailure(FailureKind.UNKNOWN,",
        "        except BotoCoreError as error:\n            return RequestFailure(FailureKind.NOT_SENT,",
        "a time-out after the effect reopens what was honoured",
        _unit(
            "submitter",
            "test_a_lost_answer_freezes_the_record_which_is_sent_again_identically_and_billed_once",
        ),
    ),
    Mutant(
        "product-code-with-licences",
        _MARKETPLACE,
        "        if legacy:\n",
        "        if self.legacy_product_code is not None:\n",
        "AWS bills a record with both a product code and a licence twice",
        _unit(
            "submitter",
            "test_the_product_code_is_never_sent_with_a_licence",
            "test_legacy_records_go_in_their_own_requests_with_product_code_and_no_licence",
        ),
    ),
    Mutant(
        "sdk-retries-kept",
        "composition_metering.py",
        'metering = Config(retries={"total_max_attempts": 1},',
        'metering = Config(retries={"total_max_attempts": 3},',
        "a retry inside the SDK hides a lost answer and exceeds the quota",
        _unit("mutant_gaps", "test_the_sdk_never_retries_batch_meter_usage_by_itself"),
    ),
    Mutant(
        "unprocessed-counts-as-released",
        _SUBMIT,
        "                written.append((record, Unknown()))\n            else:",
        "                written.append((record, Released()))\n            else:",
        "a record put back twice is reopened although an earlier answer of it is not known",
        _unit("mutant_gaps", "test_a_record_that_was_put_back_twice_keeps_its_bytes"),
    ),
    Mutant(
        "unprocessed-counts-as-billed",
        _SUBMIT,
        "            if not isinstance(outcome, Unprocessed):\n",
        "            if isinstance(outcome, Unprocessed):\n"
        '                written.append((record, Billed("")))\n'
        "            elif not isinstance(outcome, Unprocessed):\n",
        "what the Marketplace put back is never sent again",
        _unit("submitter", "test_unprocessed_records_are_retried_once_then_left_and_counted"),
    ),
    Mutant(
        "unprocessed-never-retried",
        _SUBMIT,
        "                again.append(record)\n",
        "                pass\n",
        "a record that was put back stays open until its sender is taken for dead",
        _unit("submitter", "test_unprocessed_records_are_retried_once_then_left_and_counted"),
    ),
    Mutant(
        "no-bisect",
        _SUBMIT,
        "        if len(batch.records) == 1:\n",
        "        if batch.records:\n",
        "one poison record keeps its neighbours from being billed",
        _unit(
            "submitter", "test_with_one_undefined_dimension_among_25_the_other_24_are_billed_in_the_same_run"
        ),
    ),
    Mutant(
        "poison-refuses-the-batch",
        _SUBMIT,
        "            self._isolate(batch, failure.code)\n",
        "            self._write_back([(record, Refused(failure.code)) for record in batch.records])\n",
        "one poison record closes 24 good ones as refused",
        _unit(
            "submitter", "test_with_one_undefined_dimension_among_25_the_other_24_are_billed_in_the_same_run"
        ),
    ),
    Mutant(
        "intent-not-durable",
        _SUBMIT,
        "        results = self._s.ledger.swap_many(pairs)\n        batch.intended",
        "        results = [SwapResult.DONE for _ in pairs]\n        batch.intended",
        "a crash after the send forgets it: a later fold changes what may have been honoured",
        _unit("mutant_gaps", "test_the_attempt_is_durable_before_anything_is_sent"),
    ),
    Mutant(
        "lost-intent-is-sent",
        _SUBMIT,
        "strict=True) if result is SwapResult.DONE\n",
        "strict=True) if result is not SwapResult.UNAVAILABLE\n",
        "bytes that the ledger does not hold are sent: the next fold changes them",
        _unit("submitter", "test_an_intent_that_lost_its_race_is_not_sent"),
    ),
    Mutant(
        "cap-before-ordering",
        _HOURS,
        "for back in range(window.billable_hours, 0, -1)]",
        "for back in range(1, window.billable_hours + 1)]",
        "under a backlog the newest hours are sent and the oldest miss their deadline",
        _unit("submitter", "test_the_oldest_hours_are_sent_first_and_the_cap_counts_after_ordering"),
    ),
    Mutant(
        "cap-counts-closing-licences",
        _SUBMIT,
        "run.taken += cap is not None and expiry is None",
        "run.taken += 1",
        "licences whose hour ends use up the cap: the oldest ordinary hours miss their deadline",
        _unit("submitter", "test_closing_licences_go_first_and_outside_the_cap"),
    ),
    Mutant(
        "no-lease",
        _SUBMIT,
        "if self._s.ledger.acquire_lease(self._run.owner, now=now, until=now + LEASE):",
        "if True:",
        "two senders share the quota and throttle each other",
        _unit("submitter", "test_the_minute_run_leaves_a_living_sender_alone"),
    ),
    Mutant(
        "alive-sender-overtaken",
        _LEDGER,
        "alive = record.attempt.open and now < record.attempt.started_at + sender_timeout",
        "alive = False",
        "an attempt whose answer is under way is sent a second time",
        _unit("ledger_folds", "test_an_open_attempt_is_left_alone_while_its_sender_may_live"),
    ),
    Mutant(
        "dead-sender-waited-for",
        _LEDGER,
        "alive = record.attempt.open and now < record.attempt.started_at + sender_timeout",
        "alive = record.attempt.open",
        "a crashed sender's records are never sent again and run into their deadline",
        _unit("ledger_folds", "test_an_open_attempt_is_left_alone_while_its_sender_may_live"),
    ),
    Mutant(
        "answer-by-version-only",
        _SUBMIT,
        "            if result is not SwapResult.DONE:\n                self._settle(record, outcome)\n",
        "            if result is SwapResult.UNAVAILABLE:\n                self._settle(record, outcome)\n",
        "an answer that meets a refolded record is thrown away",
        _unit("submitter", "test_an_answer_meets_a_record_that_was_refolded_meanwhile"),
    ),
    Mutant(
        "stopped-run-goes-on",
        _SUBMIT,
        "                run.stopped_by = failure.code\n",
        "                pass\n",
        "with the API disabled every record is refused in turn and the function reports success",
        _unit("submitter", "test_a_refusal_of_every_request_stops_the_run_loudly_and_reopens_the_records"),
    ),
    # --- telling -------------------------------------------------------------------------------------------
    Mutant(
        "acknowledge-a-failed-message",
        "handlers/sqs_batch.py",
        "                told=told,\n            )\n            raise\n",
        "                told=told,\n            )\n",
        "a message whose work failed is deleted: its group is lost until somebody looks",
        _unit("aggregator", "test_a_store_that_is_down_leaves_the_message_in_its_queue"),
    ),
    Mutant(
        "metric-after-the-write",
        "usecases/expire.py",
        """    report_surfacing(expiry.telemetry, before, after)
    return expiry.ledger.swap(before, advance(before, after, now=now))""",
        """    swapped = expiry.ledger.swap(before, advance(before, after, now=now))
    report_surfacing(expiry.telemetry, before, after)
    return swapped""",
        "a crash between write and metric surfaces a loss that nobody is told of",
        _unit("mutant_gaps", "test_what_is_surfaced_is_in_the_metrics_before_it_is_in_the_ledger"),
    ),
    Mutant(
        "no-metric-for-a-late-fold",
        _AGGREGATE,
        "            report_surfacing(work.telemetry, before, after)\n",
        "",
        "usage that will not be billed raises no alarm",
        _unit("aggregator", "test_a_late_row_after_success_is_surfaced_and_stamped"),
    ),
    Mutant(
        "failures-swallowed",
        _SUBMIT,
        "        if run.failures:\n            raise PartialFailure",
        "        if run.failures and run.stopped_by:\n            raise PartialFailure",
        "a run that could not write answers back reports success",
        _unit(
            "submitter",
            "test_a_failing_lookup_of_closing_licences_falls_back_to_the_ordinary_pass_and_fails_loudly",
        ),
    ),
    Mutant(
        "partial-sends-ignored",
        "adapters/work_queue.py",
        'failed = {int(entry["Id"]) for entry in answer.get("Failed", ())}',
        "failed = set[int]()",
        "messages that SQS did not take are counted as sent",
        _unit("mutant_gaps", "test_messages_that_the_queue_did_not_take_are_sent_again"),
    ),
    # --- lifecycle -----------------------------------------------------------------------------------------
    Mutant(
        "licence-events-by-arrival",
        "domain/subscribers.py",
        """    row = replace(row, activation_time=first)
    if stamp.order <= _order(row.subscription_stamp):
        return row
""",
        """    row = replace(row, activation_time=first)
""",
        "a stale License Updated revives a licence that was revoked: its last hour is never flushed",
        _unit(
            "lifecycle_subscribers",
            "test_a_license_updated_that_is_not_newer_never_revives_a_finalised_licence",
        ),
    ),
    Mutant(
        "deprovisioned-by-arrival",
        "domain/subscribers.py",
        """def _deprovision(row: SubscriberRow, stamp: Stamp) -> SubscriberRow:
    if stamp.order <= _order(row.subscription_stamp):
        return row
""",
        """def _deprovision(row: SubscriberRow, stamp: Stamp) -> SubscriberRow:
""",
        "a redelivered License Deprovisioned closes a licence anew, or one that was renewed since",
        _unit(
            "lifecycle_subscribers",
            "test_a_redelivered_deprovisioned_after_finalisation_changes_nothing",
        ),
    ),
    Mutant(
        "no-equal-time-rule",
        "domain/lifecycle_events.py",
        "return (format_instant(self.time), _RANK[self.kind], self.event_id)",
        "return (format_instant(self.time), 0, self.event_id)",
        "of two events of one second, the order of arrival or of ids decides whether a licence is closed",
        _unit("lifecycle_subscribers", "test_at_equal_times_deprovisioned_wins_whichever_comes_first"),
    ),
    Mutant(
        "parked-events-forgotten",
        "usecases/subscription.py",
        "            self._apply_parked(event.agreement_id, event.license_arn, event.customer_account)\n",
        "            pass\n",
        "an agreement that ended before its licence was known stays active",
        _unit("subscription_usecase", "test_parked_events_are_applied_when_the_licence_comes"),
    ),
)
