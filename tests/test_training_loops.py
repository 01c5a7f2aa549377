"""The proposal's linear regression, trained by the loops of other libraries from a view.

Each test imports its library itself: this file is imported where none of them is installed.
"""

from __future__ import annotations

import itertools
import pathlib
import signal
import textwrap

import numpy as np
import pytest

import dataview as dv
from children import printed, python
from counting import Rows

pytestmark = pytest.mark.clients

COPIES = "ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"
"""What NumPy says of torch's tensors in Keras."""

ROOT = pathlib.Path(__file__).parent.parent

WEIGHTS = np.array([1.0, -2.0, 0.5], "f4")


@pytest.fixture
def d(rng):
    inputs = rng.normal(size=(640, 3)).astype("f4")
    return dv.View(input=inputs, target=inputs @ WEIGHTS[:, None])


# ---------------------------------------------------------------- PyTorch


def test_the_page_on_spaces_trains_a_convolution(rng):
    import torch

    torch.manual_seed(0)
    label = rng.integers(0, 10, 640)
    image = rng.integers(0, 50, (640, 28, 28), dtype="u1")
    image[np.arange(640), :, 2 * label + 3] = 250
    names = {**vars(dv.spaces), "torch": torch, "d": dv.View(image=image / 255, label=label)}
    _, page = (ROOT / "doc" / "spaces.rst").read_text(encoding="utf-8").split("for torch\n---", 1)
    block = page.split("::\n\n", 1)[1].split("\n\nWith", 1)[0]
    exec(textwrap.dedent(block), names)
    scores = names["model"](torch.tensor(image[:, None] / 255, dtype=torch.float32))
    assert (scores.argmax(axis=1).numpy() == label).mean() > 0.9


def torch_loader(d, style):
    """A view in torch's own loader, in one of the two styles of its datasets."""
    import torch
    from torch.utils.data import DataLoader, IterableDataset

    class Batches(IterableDataset):
        def __iter__(self):
            for batch in d._loader(20, sampler="permutation"):
                yield batch._to_torch()

    if style == "iterable":
        return DataLoader(Batches(), batch_size=None)
    generator = torch.Generator().manual_seed(0)
    return DataLoader(d, batch_size=20, shuffle=True, generator=generator)


WORKERS = """
import numpy as np, torch, dataview as dv
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

class Batches(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        for batch in d._loader(20, sampler="permutation", shard=(info.id, info.num_workers)):
            yield batch._to_torch()

x = np.arange(640.0)
d = dv.View(x=x, y=x * 2)
for loader in (
    DataLoader(d, batch_size=20, shuffle=True, num_workers=2),
    DataLoader(Batches(), batch_size=None, num_workers=2),
):
    batches = list(loader)
    found = torch.cat([batch["x"] for batch in batches]).numpy()
    assert (found != x).any() and (np.sort(found) == x).all()
    assert all(torch.equal(batch["y"], 2 * batch["x"]) for batch in batches)
"""


def test_torchs_workers_hand_out_every_row_once():
    printed("-W", "error", "-c", WORKERS, timeout=300)


@pytest.mark.parametrize("style", ["a view", "a loader", "map", "iterable"])
def test_a_regression_of_torch_learns(d, style):
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if style == "a view":
        minibatches = d._minibatches(20)
    elif style == "a loader":
        names = {"input": "input", "target": "target"}
        minibatches = d._loader(20, sampler="permutation", fields=names, device="torch:cpu")
    else:
        minibatches = torch_loader(d, style)
    for _ in range(4):
        for batch in minibatches:
            tensors = batch._to_torch() if style == "a view" else batch
            loss = torch.nn.functional.mse_loss(model(tensors["input"]), tensors["target"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert np.allclose(model.weight.detach().numpy()[0], WEIGHTS, atol=0.01)


KILLED = """
import os, runpy, signal, sys
import torch

counts, entropy = [0], torch.nn.functional.cross_entropy

def counted(scores, targets):
    counts[0] += 1
    if counts[0] == STEPS:
        os.kill(os.getpid(), signal.SIGKILL)
    return entropy(scores, targets)

torch.nn.functional.cross_entropy = counted
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""A program that runs a script and dies in the middle of a step."""

ENDED = """
import pathlib, runpy, sys

sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
names = [path.read_text().strip() for path in pathlib.Path("/proc/self/task").glob("*/comm")]
left = [name for name in names if "gloo" in name]
assert not left, left
"""
"""A program that runs a script and fails if threads of a group outlive it: Python would end first,
and such a thread then aborts the process once in some dozens of runs."""


def block_of(page, beginning):
    """The first block of a page behind a text."""
    text = (ROOT / "doc" / f"{page}.rst").read_text(encoding="utf-8").split(beginning, 1)[1]
    lines = itertools.takewhile(
        lambda line: not line or line[0] == " ", text.partition("::\n")[2].splitlines()
    )
    return textwrap.dedent("\n".join(lines)).strip() + "\n"


@pytest.fixture
def script(tmp_path):
    """The script of the page for torch, beside the table of the page."""
    (tmp_path / "train.py").write_text(block_of("training_script", "With PyTorch\n---"), "utf-8")
    rng = np.random.default_rng(0)
    number = rng.integers(0, 3, size=600)
    means = np.array([[1.0, 4.0, 2.0], [3.0, 1.0, 2.5], [2.0, 2.0, 6.0]])
    length, width, height = rng.normal(means[number], 0.5).T
    kind = np.array(["iris", "rose", "tulip"])[number]
    table = dv.View(length=length, width=width, height=height, kind=kind)
    table._save(tmp_path / "flowers.csv")
    return tmp_path


def weights(path):
    import torch

    return torch.load(path)["model"]


def test_the_script_for_torch_goes_on_from_where_it_was_killed(script):
    import torch

    whole = printed("-W", "error", "train.py", "flowers.csv", "whole.pt", "2", cwd=script)
    assert whole == block_of("training_script", "model.pt 2`` trains for")
    run = "train.py", "flowers.csv", "model.pt"
    stopped = python("-c", KILLED.replace("STEPS", "33"), *run, "2", cwd=script)
    assert stopped.returncode == -signal.SIGKILL, stopped.stderr
    resumed = printed(*run, "2", cwd=script)
    # 24 batches are an epoch, of whose 33 before the kill the last checkpoint has 24
    assert resumed == "rank 0 resumes at epoch 1, row 0\n" + whole.split("\n", 1)[1]
    expected, found = weights(script / "whole.pt"), weights(script / "model.pt")
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    begun, more, *_ = printed(*run, "3", cwd=script).splitlines()
    assert begun == "rank 0 resumes at epoch 2, row 0" and more.startswith("epoch 3: ")


def test_the_script_for_torch_leaves_out_rows_in_which_something_is_missing(script):
    import torch

    flowers = (script / "flowers.csv").read_text("utf-8")
    printed("train.py", "flowers.csv", "whole.pt", "1", cwd=script)
    gaps = "1,4,2,\n,4,2,iris\n3,,2.5,rose\nnan,2,6,tulip\n"
    (script / "gaps.csv").write_text(flowers + gaps, "utf-8")
    printed("-W", "error", "train.py", "gaps.csv", "gaps.pt", "1", cwd=script)
    expected, found = weights(script / "whole.pt"), weights(script / "gaps.pt")
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_the_script_for_torch_trains_in_several_processes(script):
    import torch

    ranks = "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"
    (script / "ended.py").write_text(ENDED, "utf-8")
    (script / "killed.py").write_text(KILLED.replace("STEPS", "11"), "utf-8")
    whole = printed(*ranks, "ended.py", "train.py", "flowers.csv", "whole.pt", "2", cwd=script)
    run = "train.py", "flowers.csv", "model.pt", "2"
    assert python(*ranks, "killed.py", *run, cwd=script).returncode
    assert weights(script / "model.pt")
    resumed = printed(*ranks, *run, cwd=script).splitlines()
    begun = [f"rank {rank} resumes at epoch 0, row 400" for rank in range(2)]
    assert sorted(resumed[:2]) == begun and resumed[2:] == whole.splitlines()
    expected, found = weights(script / "whole.pt"), weights(script / "model.pt")
    assert all(torch.equal(found[name], expected[name]) for name in expected)


# ---------------------------------------------------------------- Lightning


@pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:.*LeafSpec")
@pytest.mark.filterwarnings("ignore:.*callbacks used to create the checkpoint")
@pytest.mark.filterwarnings("ignore:.*weights_only")
def test_lightning_resumes_a_loader_within_an_epoch(d, tmp_path):
    import lightning
    import torch
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Regression(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer, self.seen = torch.nn.Linear(3, 1), []

        def training_step(self, batch, number):
            self.seen.append(batch["input"][0].tolist())
            return torch.nn.functional.mse_loss(self.layer(batch["input"]), batch["target"])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def trained(model, checkpoint=None, **options):
        names = {"input": "input", "target": "target"}
        loader = d._loader(32, sampler="permutation", fields=names, device="torch:cpu")
        shown = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
        place = {"accelerator": "cpu", "default_root_dir": tmp_path}
        trainer = lightning.Trainer(max_epochs=2, **place, **shown, **options)
        trainer.fit(model, loader, ckpt_path=checkpoint)
        return model

    keep = ModelCheckpoint(tmp_path, every_n_train_steps=7, save_top_k=-1)
    whole = trained(Regression(), callbacks=[keep])
    assert len(whole.seen) == 40 and whole.seen[:20] != whole.seen[20:]
    for step in (7, 28):
        (path,) = tmp_path.glob(f"*step={step}.ckpt")
        rest = trained(Regression(), path, enable_checkpointing=False)
        assert rest.seen == whole.seen[step:]
        assert torch.equal(rest.layer.weight, whole.layer.weight)


# ---------------------------------------------------------------- Keras


@pytest.fixture
def keras(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    import keras

    keras.utils.set_random_seed(0)
    return keras


def keras_model(keras):
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    return model


@pytest.mark.filterwarnings(COPIES)
def test_keras_takes_fields(d, keras):
    model = keras_model(keras)
    model.fit(d.input, d.target, batch_size=20, epochs=4, verbose=0, validation_split=0.1)
    assert np.allclose(model.get_weights()[0][:, 0], WEIGHTS, atol=0.01)
    assert model.evaluate(d.input, d.target, verbose=0) < 1e-3
    assert np.allclose(model.predict(d.input, verbose=0), d.target(), atol=0.05)


@pytest.mark.filterwarnings(COPIES)
def test_keras_reads_minibatches_when_it_is_their_turn(keras):
    rows = Rows(60)
    minibatches = dv.View(input=rows.view / 1e3)._minibatches(20)

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return len(minibatches)

        def __getitem__(self, number):
            inputs = minibatches[number].input()
            return inputs, inputs[:, :1] * 2

    keras_model(keras).fit(Batches(), epochs=1, verbose=0)
    assert set(rows.counts()) <= {1, 2}  # Keras looks at a batch before it begins


@pytest.mark.filterwarnings(COPIES, "ignore:`shuffle=True` was passed")
def test_keras_takes_a_loader_as_a_generator(d, keras):
    model = keras_model(keras)
    names = ("input", "target")
    loader = d._loader(20, sampler="permutation", fields=names, repeat=True)
    model.fit((batch for batch in loader), steps_per_epoch=32, epochs=4, verbose=0)
    assert np.allclose(model.get_weights()[0][:, 0], WEIGHTS, atol=0.01)


# ---------------------------------------------------------------- scikit-learn


def test_scikit_learn_learns_by_batches_in_one_pass_an_epoch():
    from sklearn.decomposition import IncrementalPCA
    from sklearn.linear_model import SGDRegressor
    from sklearn.preprocessing import StandardScaler

    rows = Rows(60)
    d = dv.View(input=rows.view)
    for model, data in (
        (StandardScaler(), lambda b: b.input),
        (IncrementalPCA(2), lambda b: b.input()),
    ):
        for batch in d._minibatches(20):
            model.partial_fit(data(batch))
        assert rows.counts() == [1] * 60
    scaler = StandardScaler().fit(rows.data)
    z = (d.input - scaler.mean_) / scaler.scale_
    pairs = dv.zip(x=z, y=z[:, 0] * 3)
    line = SGDRegressor(random_state=0)
    loader = pairs._loader(20, sampler="permutation", fields=("x", "y"), repeat=True)
    for batch in itertools.islice(loader, 300):
        line.partial_fit(*batch)
    assert np.allclose(line.predict(scaler.transform(rows.data)), pairs.y(), atol=0.1)


def test_a_pipeline_takes_lazy_steps(d):
    from sklearn.linear_model import LinearRegression
    from sklearn.model_selection import KFold, cross_validate
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    model = make_pipeline(FunctionTransformer(np.exp), StandardScaler(), LinearRegression())
    found = cross_validate(model, d.input, d.target, cv=KFold(3), return_estimator=True)
    expected = cross_validate(model, d.input(), d.target(), cv=KFold(3))
    assert np.allclose(found["test_score"], expected["test_score"], rtol=1e-6)
    assert found["estimator"][0].predict(d.input[:5]).shape == (5, 1)
