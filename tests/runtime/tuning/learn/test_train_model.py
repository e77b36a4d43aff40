"""Learning: a rule that the closed form misses is found and holds for other ops; where there is none, the model is not used."""

import json
import sys
from dataclasses import replace

import andiron
import numpy as np
import pytest
from andiron.dsl.errors.database import DamagedDatabase, TooFewMeasurements
from andiron.dsl.errors.run import NoPackage
from andiron.runtime.compile import CompileRequest
from andiron.runtime.tuning.database.describe import fingerprint_of
from andiron.runtime.tuning.database.open_database import open_database
from andiron.runtime.tuning.learn import trees
from andiron.runtime.tuning.learn.features import NAMES
from andiron.runtime.tuning.learn.figures import kendall_tau, regret
from andiron.runtime.tuning.learn.model_store import newest_model, store_model
from andiron.runtime.tuning.learn.order_candidates import ordered_candidates
from andiron.runtime.tuning.learn.ranker import ranker_for
from andiron.runtime.tuning.learn.train_model import train_model
from andiron.runtime.tuning.learn.training_set import MeasuredTask
from andiron.runtime.tuning.trials import trials_for
from andiron.tools.cli import main

OP = "op scale[M, N](X: f32[M, N]) -> (Y: f32[M, N]):\n    Y[i, j] = 2 * X[i, j]\n"


def tasks(rule, ops=12, schedules=16):
    """Tasks of ops whose times are the closed form's, but for a factor."""
    rng = np.random.default_rng(1)
    made = []
    for n in range(ops):
        features = rng.normal(n, 1, (schedules, len(NAMES)))
        predicted = np.exp(rng.normal(0, 0.3, schedules)) * 1e-3
        factor = np.exp(0.5 * rule(features - n, rng) + rng.normal(0, 0.02, schedules))
        made.append(MeasuredTask((f"op {n}", "x"), f"task {n}", features, predicted, predicted * factor))
    return made


def by_a_feature(features, rng):
    return features[:, NAMES.index("turns")]


def by_chance(features, rng):
    return rng.normal(0, 1, len(features))


@pytest.fixture(scope="module")
def learned():
    pytest.importorskip("lightgbm", reason="the extra `learn`")
    return train_model(("cpu", "a machine"), tasks(by_a_feature), lambda _: None)


def test_a_rule_is_learned(learned):
    assert learned.refusal == ""
    assert learned.learned.mean["tau"] > 0.6 > 0.5 > learned.closed.mean["tau"]
    assert learned.learned.mean["regret@1"] < learned.closed.mean["regret@1"]
    assert next(iter(learned.importances)) == "turns"
    assert (learned.rows, learned.tasks, learned.ops) == (192, 12, 12)


def test_chance_is_not():
    pytest.importorskip("lightgbm", reason="the extra `learn`")
    found = train_model(("cpu", "a machine"), tasks(by_chance), lambda _: None)
    assert "no better than the closed form's" in found.refusal


def test_too_few():
    with pytest.raises(TooFewMeasurements, match="64 schedules of 4 ops were measured for cpu on a machine") as caught:
        train_model(("cpu", "a machine"), tasks(by_a_feature, ops=4), lambda _: None)
    assert "andiron tune --tasks" in caught.value.help


def test_figures():
    seconds = np.array([3.0, 1.0, 2.0, 4.0])
    assert kendall_tau(seconds, seconds) == pytest.approx(1)
    assert kendall_tau(-seconds, seconds) == pytest.approx(-1)
    assert kendall_tau(np.ones(4), seconds) == 0
    assert kendall_tau(np.array([1.0, 1.0, 2.0, 2.0]), seconds) == pytest.approx(2 / 24**0.5)
    assert [regret(np.arange(4), seconds, k) for k in (1, 2, 10)] == [2.0, 0.0, 0.0]


@pytest.mark.parametrize("change", ["trees = substr(trees, 1, 300)", "trees = ''", "facts = replace(facts, '0', '1')"])
def test_a_damaged_model_is_refused(change, learned, tmp_path):
    """LightGBM ends the process when it reads a text that was cut."""
    database = open_database(tmp_path / "x.db")
    here = replace(learned, target="cpu", fingerprint="a machine")
    store_model(database, here)
    assert list(database.check()) == []
    with database.storage.transaction(write=True) as session:
        session.execute(f"UPDATE andiron_models SET {change}")
    with pytest.raises(DamagedDatabase, match="a model is not what was stored"):
        newest_model(database, "cpu", "a machine")
    (said,) = database.check()
    assert said.startswith("model ")


def test_storing_and_using(learned, tmp_path, monkeypatch):
    request = CompileRequest.from_text(OP, "scale", "auto", "cpu", 1, {"M": 64, "N": 4096})
    path = tmp_path / "x.db"
    assert ranker_for(request, path)[0] is None  # no database
    database = open_database(path)
    assert "no model for this kind of machine" in ranker_for(request, database)[1]
    here = replace(learned, target="cpu", fingerprint=fingerprint_of(request), time="2026-11-01T00:00:00Z")
    store_model(database, here)
    store_model(database, here)
    assert newest_model(open_database(path), "cpu", here.fingerprint) == here

    ranker, how = ranker_for(request, path)
    assert "learned from 192 measurements, 2026-11-01" in how
    first, second = (request.variant(s) for s in request.schedules[-1:] * 2)
    assert ranker.seconds([first, second])[0] == ranker(first) > 0

    for change, reason in (
        ({"refusal": "it is worse"}, "is not used: it is worse"),
        ({"features": (0, NAMES)}, "`andiron db train` trains it anew"),
        ({"features": (1, ("another",))}, "`andiron db train` trains it anew"),
    ):
        store_model(database, replace(here, time=f"2026-11-02T00:00:0{len(reason) % 10}Z", **change))
        found, how = ranker_for(request, path)
        assert found is None
        assert reason in how
        with database.storage.transaction(write=True) as session:
            session.execute("DELETE FROM andiron_models WHERE time > '2026-11-02'")
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    found, how = ranker_for(request, path)
    assert found is None
    assert "pip install 'andiron[learn]'" in how
    with pytest.raises(NoPackage, match="LightGBM"):
        trees.lightgbm()


class Backwards:
    """A ranker for which what the closed form puts last is best."""

    def seconds(self, variants):
        return [1.0 / (1 + n) for n in range(len(variants))]

    def best(self, variants, count):
        return [(n, 1.0 / (1 + n)) for n in reversed(range(count))]


def test_candidates_in_its_order(learned, monkeypatch):
    request = CompileRequest.from_text(OP, "scale", "auto", "cpu:avx2", 1, {"M": 64, "N": 4096})
    place, dims = len(request.schedules) - 1, {"M": 64, "N": 4096}
    plain, _ = trials_for(request, place, 12, dims, lambda _: None)
    ranked, _ = trials_for(request, place, 3, dims, lambda _: None, ranker=Backwards())
    assert [t.schedule for t in ranked] == [plain[0].schedule, plain[-1].schedule, plain[-2].schedule]

    monkeypatch.setattr("andiron.runtime.tuning.learn.order_candidates.Ranker", lambda *_: Backwards())
    from andiron.runtime.tuning.candidates import tuning_candidates

    listed = list(tuning_candidates(request, place))[:6]
    found = ordered_candidates(request, learned, dims, listed)
    assert [c.schedule for c, _ in found] == [listed[n][0].schedule for n in (0, 1, 5, 4, 3, 2)]


def test_explain_shows_its_seconds(learned, tmp_path, capsys):
    path = tmp_path / "scale.sched"
    path.write_text(OP)
    words = ["explain", str(path), "--size", "M=64,N=4096", "--candidates", "3"]
    assert main(words) == 0
    assert "learned" not in capsys.readouterr().out
    k = andiron.compile(OP, M=64, N=4096)
    store_model(open_database(), replace(learned, target="cpu", fingerprint=fingerprint_of(k.request)))
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "tuning: candidates are ordered by the model that learned from 192 measurements" in said
    lines = said.partition("learned  closed form\n")[2].splitlines()
    assert len(lines) == 3
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["learned"]["candidates"]
    ranker, _ = ranker_for(k.request, None)
    trials, _ = trials_for(k.request, 0, 3, {"M": 64, "N": 4096}, lambda _: None, ranker=ranker)
    assert [c["learned"] for c in found] == pytest.approx([t.predicted for t in trials])
    assert found[0]["closed"] != found[0]["learned"]
    assert [c["learned"] for c in found[1:]] == sorted(c["learned"] for c in found[1:])


def test_tuning_says_so(learned):
    k = andiron.compile(OP, M=64, N=4096, threads=1)
    store_model(open_database(), replace(learned, target="cpu", fingerprint=fingerprint_of(k.request)))
    found = k.tune(top=2, keep=False)
    assert "candidates are ordered by the model that learned from 192 measurements" in found.note
    assert len(found.trials) == 2
