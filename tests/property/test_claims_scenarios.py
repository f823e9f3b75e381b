"""The narrow passages of the model of claims, walked on purpose: random steps find them only now and then."""

from tests.property.test_claims_model import Claims


def a_model(*answers: str) -> Claims:
    """Reservations a (open for two minutes) and b (for ten), and a pod for each answer to its claim, in a."""
    model = Claims()
    model.start(list(answers))
    return model


def settled(model: Claims) -> Claims:
    """After a pass on fresh views everything that the machine checks holds."""
    model.act_on_fresh_views(arrives=False, thaws=False)
    still(model)
    return model


def still(model: Claims) -> None:
    model.a_pod_has_one_claim_in_a_reservation()
    model.what_was_let_in_keeps_its_claim()
    model.promises_fit_into_the_class()
    model.the_last_phases_are_never_left()


def claims(model: Claims) -> dict[str, int]:
    return {name: len(row.claims) for name, row in model.api.reservations.items()}


def test_a_create_that_ends_in_its_last_second_finds_its_claim() -> None:
    model = a_model("slow")
    model.advance(30, arrives=False, acts=True)
    model.advance(1, arrives=True, acts=True)
    assert claims(model) == {"a": 1, "b": 0}
    still(settled(model))


def test_a_claim_whose_create_came_to_nothing_is_gone_after_sixty_seconds() -> None:
    model = a_model("slow")
    model.advance(60, arrives=False, acts=True)
    assert claims(model) == {"a": 0, "b": 0}


def test_a_pod_that_the_informers_have_not_seen_keeps_its_claim() -> None:
    model = a_model("stored")
    model.advance(60, arrives=False, acts=False)
    model.act_on_stale_views(1000, 0, lost=False, frozen=False)
    assert claims(model) == {"a": 1, "b": 0}
    still(settled(model))


def test_a_late_claim_that_was_asked_for_again_stands_once() -> None:
    model = settled(a_model("late"))
    assert claims(model) == {"a": 1, "b": 0}
    model.advance(1, arrives=True, acts=False)
    assert claims(model) == {"a": 1, "b": 0}
    still(settled(model))


def test_a_late_claim_that_lands_where_its_pod_no_longer_goes_is_released() -> None:
    model = a_model("late")
    model.change("a", 4, 900)
    settled(model)
    assert claims(model) == {"a": 0, "b": 1}
    model.advance(1, arrives=True, acts=False)
    assert claims(model) == {"a": 1, "b": 1}
    settled(model)
    assert claims(model) == {"a": 0, "b": 1}


def test_a_waiting_pod_takes_its_claim_back_from_a_window_that_is_over_and_goes_to_the_next() -> None:
    model = a_model("lost")
    assert claims(model) == {"a": 1, "b": 0}
    model.advance(200, arrives=False, acts=False)
    settled(model)
    assert claims(model) == {"a": 0, "b": 1}


def test_a_leader_that_thaws_opens_no_pod_that_was_told_to_wait() -> None:
    model = a_model("lost")
    model.act_on_stale_views(1000, 1000, lost=False, frozen=True)
    model.give_back("a", "cancel")
    model.act_on_fresh_views(arrives=False, thaws=False)
    model.act_on_fresh_views(arrives=False, thaws=True)
    assert claims(model) == {"a": 0, "b": 1}
    still(model)
