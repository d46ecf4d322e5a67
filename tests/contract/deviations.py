"""Where an implementation is known to differ from AWS: (implementation, test case) -> what it does instead.

Every entry is a strict xfail: when the implementation is repaired, its test fails until the entry goes.
"""

from __future__ import annotations

_MOTO: dict[str, tuple[str, ...]] = {
    "compares a number with a string and fails": ("test_conditions[ordering-across-types-is-false]",),
    "checks an expression only against an item that exists, or not at all": tuple(
        f"test_wrong_expressions_are_refused[{case}]"
        for case in (
            "undefined",
            "unused-value",
            "undefined-name",
            "syntax",
            "empty",
            "unknown-function",
            "operand-type",
            "empty-range",
        )
    ),
    "keeps a number's text as it was sent": tuple(
        f"test_numbers_keep_38_digits_exactly[{case}]"
        for case in (
            "0042.1200-42.12",
            "1E3-1000",
            "-0-0",
            "1.00000000000000000000000000000000000000005E-2-None",
        )
    ),
    "accepts values that the service refuses": tuple(
        f"test_wrong_items_are_refused[{case}]" for case in ("repeated-member", "too-large", "index-key-type")
    ),
    "counts item sizes by rules of its own": (
        "test_an_item_may_have_400_kib_and_not_a_byte_more",
        "test_a_page_ends_at_one_megabyte",
    ),
    "does not check the types of a key's attributes": ("test_a_key_must_be_exactly_the_tables_key[type]",),
    "accepts key conditions that the service refuses, or raises another error": tuple(
        f"test_wrong_key_conditions_are_refused[{case}]"
        for case in ("or", "two-on-one-key", "unequal", "type")
    ),
    "leaves out the last key when a full page is the end": (
        "test_a_page_full_to_its_limit_names_a_last_key_even_at_the_end",
    ),
    "does not know a sort-key condition with the value first": ("test_key_conditions[value-first]",),
    "mixes up list elements of a projection": ("test_a_projection_of_list_elements_closes_the_gaps",),
    "ignores projections in transactions": ("test_a_transaction_reads_items_in_the_order_of_the_request",),
    "switches time to live on again without a word": ("test_time_to_live_is_switched_on_once",),
    "does not check start keys": (
        "test_a_start_key_outside_the_condition_is_refused",
        *(
            f"test_a_start_key_that_no_page_could_end_at_is_refused[{case}]"
            for case in ("incomplete", "too-much", "other-partition")
        ),
        "test_what_an_index_cannot_answer_is_refused[start-key-of-the-table]",
    ),
    "lets a filter name key attributes": ("test_a_filter_may_not_name_a_key_attribute",),
    "ignores attributes that an index does not project": (
        "test_what_an_index_cannot_answer_is_refused[attribute-that-is-not-projected]",
    ),
    "raises ResourceNotFoundException for an unknown index": ("test_an_unknown_index_is_refused",),
    "applies the part of a batch write that comes before the fault, or does not see the fault": tuple(
        f"test_wrong_batch_writes_are_refused_whole[{case}]" for case in ("26-items", "duplicates", "no-key")
    ),
    "does not know client request tokens": ("test_a_transaction_with_a_known_token_is_applied_once",),
    "does not evaluate PartiQL conditions as conditions: no match is no error, SET and REMOVE do not mix": (
        "test_a_batch_of_conditional_updates_sets_and_removes",
        "test_a_batch_statement_shows_the_item_that_failed_its_condition",
        "test_a_single_statement_raises_what_a_batch_reports",
        *(
            f"test_partiql_conditions[{case}]"
            for case in (
                "number-by-value",
                "unequal",
                "orderings",
                "or",
                "not",
                "in",
                "between",
                "attribute-type",
                "begins-with",
                "contains",
                "sets-are-unordered",
                "lists-are-ordered",
            )
        ),
    ),
    "does not answer RETURNING": (
        "test_returning_answers_with_the_item[ALL OLD-item0]",
        "test_returning_answers_with_the_item[ALL NEW-item1]",
        "test_returning_answers_with_the_item[MODIFIED OLD-item2]",
        "test_returning_answers_with_the_item[MODIFIED NEW-item3]",
        "test_delete_returns_the_old_item_and_takes_absence_for_done",
    ),
    "cannot mix literals and parameters in an INSERT": ("test_insert_refuses_an_existing_item",),
    "does not find a quoted table name in a batch SELECT": ("test_select_by_key_in_a_batch",),
    "runs statements that the service refuses": (
        *(f"test_a_wrong_statement_fails_alone[{case}]" for case in ("no-full-key", "key-change", "syntax")),
        *(
            f"test_wrong_batches_are_refused_whole[{case}]"
            for case in ("26-statements", "reads-and-writes", "one-item-twice")
        ),
    ),
}

_MINISTACK: dict[str, tuple[str, ...]] = {
    "does not check functions and operand types when there is no item": (
        "test_wrong_expressions_are_refused[unknown-function]",
        "test_wrong_expressions_are_refused[operand-type]",
    ),
    "removes list elements one after the other, so later indexes have moved": (
        "test_updates[removes-by-old-indexes]",
    ),
    "accepts updates that the service refuses": tuple(
        f"test_wrong_updates_are_refused_and_change_nothing[{case}]"
        for case in ("overlap", "section-twice", "arithmetic-on-text")
    ),
    "accepts key conditions that the service refuses": tuple(
        f"test_wrong_key_conditions_are_refused[{case}]" for case in ("or", "unequal", "contains")
    ),
    "accepts a start key with attributes beside the key": (
        "test_a_start_key_that_no_page_could_end_at_is_refused[too-much]",
    ),
    "lets a filter name key attributes": ("test_a_filter_may_not_name_a_key_attribute",),
    "ignores attributes that an index does not project": (
        "test_what_an_index_cannot_answer_is_refused[attribute-that-is-not-projected]",
        "test_what_an_index_cannot_answer_is_refused[all-attributes]",
    ),
    "answers a batch get of any size": ("test_batch_get_stops_at_16_megabytes_and_names_the_rest",),
    "cannot read parentheses around an OR in PartiQL": ("test_partiql_conditions[or]",),
    "lets PartiQL change a key attribute": ("test_a_wrong_statement_fails_alone[key-change]",),
    "runs batches that mix reads and writes or name one item twice": (
        "test_wrong_batches_are_refused_whole[reads-and-writes]",
        "test_wrong_batches_are_refused_whole[one-item-twice]",
    ),
    "switches time to live on again without a word": ("test_time_to_live_is_switched_on_once",),
    "refuses to delete a message again": ("test_a_deleted_message_stays_away",),
}

DEVIATIONS: dict[tuple[str, str], str] = {
    (backend, case): reason
    for backend, groups in (("moto", _MOTO), ("ministack", _MINISTACK))
    for reason, cases in groups.items()
    for case in cases
}
