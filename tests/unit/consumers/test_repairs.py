"""What is an emergency, what is a repair, and what only looks like one."""

from __future__ import annotations

import pytest
from tests.unit.consumers.repair_texts import EMERGENCIES, LOOK_ALIKES, REPAIRS

from afterturn.consumers.repairs import RepairRules, load_repair_rules, read_request, read_staff


@pytest.fixture(scope="module")
def rules() -> RepairRules:
    return load_repair_rules()


@pytest.mark.parametrize(("text", "kind"), EMERGENCIES)
def test_an_emergency_is_recognized(rules: RepairRules, text: str, kind: str) -> None:
    reading = read_request(text, rules)
    assert reading.emergencies == (kind,)
    assert reading.problems[-1].urgency == "emergency"


@pytest.mark.parametrize(("text", "category", "urgency"), REPAIRS)
def test_a_repair_request_has_its_category(rules: RepairRules, text: str, category: str, urgency: str) -> None:
    reading = read_request(text, rules)
    assert [(problem.category, problem.urgency) for problem in reading.problems] == [(category, urgency)]
    assert not reading.emergencies


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_a_look_alike_opens_nothing_and_wakes_nobody(rules: RepairRules, text: str) -> None:
    reading = read_request(text, rules)
    assert not reading.problems
    assert not reading.emergencies


@pytest.mark.parametrize(
    ("question", "answer", "kinds"),
    [
        ("Do you smell gas right now?", "yes", ("gas",)),
        ("Do you smell gas right now?", "Yes, very strong", ("gas",)),
        ("Do you smell gas right now?", "no", ()),
        ("Do you smell gas right now?", "no, I don't smell gas", ()),
        ("Is there any smoke or fire?", "yes!!", ("fire",)),
        ("Would you like to renew?", "yes", ()),
        ("If you smell gas, leave and call 911. Is everyone able to walk out?", "yes", ()),
    ],
)
def test_an_answer_to_the_agents_question_counts(
    rules: RepairRules, question: str, answer: str, kinds: tuple[str, ...]
) -> None:
    asked, _ = read_staff(question, rules)
    assert read_request(answer, rules, asked).emergencies == kinds


@pytest.mark.parametrize(
    "text", ["The sink is fixed, thank you", "heat is back", "ya funciona", "funktioniert wieder", "c'est réparé"]
)
def test_a_repair_that_is_done_is_understood(rules: RepairRules, text: str) -> None:
    assert read_request(text, rules).resolved


@pytest.mark.parametrize("text", ["when will it be fixed?", "it's still not fixed", "please get the sink fixed"])
def test_a_repair_that_is_not_done_is_not(rules: RepairRules, text: str) -> None:
    assert not read_request(text, rules).resolved


def test_there_are_enough_texts_of_both_kinds() -> None:
    assert len(EMERGENCIES) + len(REPAIRS) >= 60
    assert len(LOOK_ALIKES) >= 60
