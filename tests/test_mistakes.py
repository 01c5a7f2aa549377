"""The hundred usual mistakes: what is typed, what the message must name, and a remedy that works.

The texts of all messages stand in tests/snapshots/mistakes. After an intended change, write them
anew, and read the difference before you commit:
DATAVIEW_UPDATE_SNAPSHOTS=1 pytest tests/test_mistakes.py
"""

# ruff: noqa: E501  # a mistake is a row of the table

from __future__ import annotations

import math
import operator
import pickle
import re
import types

import numpy as np
import pytest

import dataview as dv
from dataview.view import hints
from package import verbs
from recorded import check_files, check_text

# What is typed, what the message must name, and what can be typed instead (if it is one line).
MISTAKES = [
    # --- a forgotten underscore
    ("d.petal.mean()", "._mean()", "d.petal._mean()()"),
    ("d.petal.sum()", "._sum()", "d.petal._sum()()"),
    ("d.petal.max()", "._max()", "d.petal._max()()"),
    ("d.petal.copy()", "did you mean ._copy()?", "d.petal._copy()"),
    ("d.petal.save('new.npy')", "._save()", "d.petal._save('new.npy')"),
    ("d.petal.astype('f4')", "._astype()", "d.petal._astype('f4')()"),
    ("d.petal.reshape(-1)", "._reshape()", "d.petal._reshape(-1)()"),
    ("d.petal.size", "._size()", "d.petal._size()"),
    ("d.petal.nbytes", "._nbytes()", "d.petal._nbytes()"),
    ("d.petal.T", "d._transpose()", "d.petal._transpose()()"),
    ("d.petal.describe()", "._describe()", "d.petal._describe()"),
    ("d.petal.meta", "._meta?", "d.petal._meta"),
    ("r.drop('n')", "._drop()", "r._drop('n')()"),
    ("r.rename(columns={'n': 'm'})", "._rename()", "r._rename({'n': 'm'})()"),
    ("r.filter(r.n > 1)", "._filter()", "r._filter(r.n > 1)()"),
    ("r.map(len)", "._map()", "r._map(lambda row: row.n())[0]()"),
    ("groups.mean()", "._mean()", "groups._mean()()"),
    ("groups.n", "groups._mean().n", "groups._mean().n()"),
    ("groups._sum(where=y > 1)", "has no argument 'where' | d[mask]._group(by=...)", "r[r.n > 1]._group(by='label')._sum()()"),
    ("r._counts('label')", "d.label._counts()", "r.label._counts()()"),
    ("r._rename('n', 'm')", "_rename(old='new')", "r._rename(n='m')()"),
    ("dv.View(np.array([True]))[0] = 'no'", "True and False", "np.array(['no']) == 'yes'"),
    ("groups._mean('n')", "groups._mean().x for one", "groups._mean().n()"),
    ("groups.apply(len)", "[function(rows) for label, rows in groups]", "[len(rows) for _, rows in groups]"),
    ("d._petal", "no leading underscore | .petal?", "d.petal"),
    ("r.LABEL", "'LABEL' | 'label'?", "r.label"),
    # --- forgotten parentheses
    ("x - x._mean", "_mean is a method | _mean()", "x - x._mean()"),
    ("x == x._max", "_max is a method | _max()", "x == x._max()"),
    ("x - X.mean", "mean is a method | mean()", "x - X.mean()"),
    ("dv.View(input=x._mean)", "_mean is a method | _mean()", "dv.View(input=x._mean())"),
    # --- a name that other libraries have
    ("d.head()", "._head()", "d._head()"),
    ("d.columns", "d._fields()", "d._fields()"),
    ("d.values", "d()", "d()"),
    ("d.loc[0]", "d[rows]", "d[0]"),
    ("d._iloc[0]", "d[rows]", "d[0]"),
    ("r.query('n > 1')", "d[mask]", "r[r.n > 1]"),
    ("r.groupby('label')", "d._group(by=name)", "r._group(by='label')"),
    ("r.sort_values('n')", "d._sorted(by=name)", "r._sorted(by='n')"),
    ("r.assign(z=3)", "d._set_field(name, data)", "r._set_field('z', r.n + 1)"),
    ("r.isna()", "._isna()", "r.petal._isna()()"),
    ("r.label.str.startswith('a')", "np.strings.upper(d._astype('T')), as the other functions of np.strings", "r[np.strings.startswith(r.label._astype('T'), 'a')]()"),
    ("r._join(r)", "['petal', 'label', 'n'] | on= | _drop", "r._join(r._select('n'))"),
    ("r.merge(r, on='n')", "d._join(other, on=name)", "r._join(r._select('n'), on='n')"),
    ("r.to_csv('new.csv')", "d._save(path)", "r._save('new.csv')"),
    ("x.numpy()", "d()", "x()"),
    ("x.view(-1)", "d._reshape(shape)", "x._reshape(-1)"),
    ("x.unsqueeze(0)", "d[:, None]", "x[:, None]"),
    ("x.train_test_split(0.8)", "d._split(0.8, 0.2, seed=0)", "x._split(0.8, 0.2, seed=0)"),
    ("x.shuffle()", "d._shuffled(seed)", "x._shuffled(0)"),
    ("x.batch(2)", "d._minibatches(batch_size)", "x._minibatches(2)"),
    ("x.compute()", "d()", "x()"),
    ("x.flush()", "a write is done when its statement is", ""),
    ("x._dedup()", "d._drop_duplicates()", "r._drop_duplicates('label')()"),
    ("x._fill(0)", "d[...] = value", "x[...] = 0"),
    ("x._drop_na()", "'_dropna'", "r._dropna()"),
    ("x._shufled(0)", "'_shuffled'", "x._shuffled(0)"),
    ("dv.read_csv('t.csv')", "dv.open(path)", "dv.open('t.csv')"),
    ("dv.load('t.npy')", "dv.open(path)", "dv.open('t.npy')"),
    ("dv.Dataset(X)", "dv.View(data)", "dv.View(X)"),
    ("dv.view(X)", "dv.view is a module, and no function; write dv.View(data)", "dv.View(X)"),
    ("dv.loader(x, 2)", "is a module | dv.View(data)._loader(batch_size)", "dv.View(X)._loader(2)"),
    ("dv.batches(x, 2)", "is a module | d._minibatches(batch_size)", "x._minibatches(2)"),
    ("dv.write(x, 't.npy')", "is a module | d._save(path)", "x._save('new.npy')"),
    ("dv.show(x)", "is a module | d._show()", "x._show()"),
    ("dv.DataLoader(x, 2)", "dv.View(data)._loader(batch_size)", "dv.View(X)._loader(2)"),
    ("dv.stack([x, x])", "np.stack takes views", "np.stack([x, x])()"),
    ("dv.mean(x)", "np.mean takes views | d._mean()", "np.mean(x)()"),
    ("dv.opn('t.npy')", "'open'", "dv.open('t.npy')"),
    # --- fields that are not there
    ("d.petl", "'petal' | petal, target", "d.petal"),
    ("d['petl']", "'petal'", "d['petal']"),
    ("d['targets']", "did you mean 'target'? The fields are", "d['target']"),
    ("d[['petal', 'targt']]", "'target'", "d[['petal', 'target']]"),
    ("d['petal', 0]", "names of fields stand behind all else | d['petal'][0]", "d['petal'][0]"),
    ("d[0, 'petal', 0]", "names of fields stand behind all else | d['petal'][0, 0]", "d['petal'][0, 0]"),
    ("r['n', 'label', 1:]", "d['n', 'label'][1:]", "r['n', 'label'][1:]"),
    ("d['petl', 0]", "names of fields behind them, as in d[0, 'x'] | 'petl'", "d[0, 'petal']"),
    ("r[:, 0]", "the key [:, 0] | 'petal', 'label', 'n' | d[:, 'petal']", "r[:, 'petal']"),
    ("r[[0, 1], 1]", "no columns but the fields | d[[0, 1], 'petal']", "r[[0, 1], 'petal']"),
    ("x['petal']", "'petal' | no fields", ""),
    ("wide.f5", "f000, f001 | (985 more) | f999", "wide.f005"),
    ("d[0:1, 0:1].target", "'target' | only partly inside", ""),
    ("r._sorted(by='nn')", "'nn' | 'n'", "r._sorted(by='n')"),
    ("r._select('petal label')", "'petal label' | petal, label, n", "r._select('petal', 'label')"),
    ("u.petal", "'petal' is unknown | d = d._probe()", "u._probe()"),
    ("'petal' in d", "'petal' in d._fields()", "'petal' in d._fields()"),
    # --- assignments to fields
    ("d.pred = np.zeros(4)", "'pred' | d._set_field('pred', data)", "d._set_field('pred', X[:, 0])"),
    ("r['pred'] = 3", "'pred' | d._set_field('pred', data)", "r._set_field('pred', X[:, 0])"),
    ("d._petal = 3", "'_petal' | no leading underscore", "d.petal = 3"),
    ("x.shape = (6, 2)", "d._reshape(shape)", "x._reshape(6, 2)"),
    ("x.dtype = 'f4'", "d._astype(dtype)", "x._astype('f4')"),
    ("d[0].petal = x[0, :2]", "'petal' | [...] = other | ._set_field(", "d[0]._field('petal')._write([1, 2])"),
    ("del d.petal", "d._drop('petal')", "d._drop('petal')"),
    # --- making a view
    ("dv.View(X, y)", "got 2 | dv.View(input=X, target=y)", "dv.View(input=X, target=y)"),
    ("dv.View(X, target=labels)", "'target' | dv.View(input=X, target=y)", "dv.View(input=X, target=labels)"),
    ("dv.View(X, target=X)", "'target' | float64 (4, 3) | dv.View(input=X, target=y)", ""),
    ("dv.View(X, input=(0, 2))", "(0, 2) of field 'input' | np.s_[0:2] | [0, 2]", "dv.View(X, input=[0, 2])"),
    ("dv.View(X, input='0:2')", "'0:2' | slices", "dv.View(X, input=slice(0, 2))"),
    ("dv.View(X, input=np.s_[:5])", "[:5] of field 'input' | length 3", "dv.View(X, input=np.s_[:3])"),
    ("dv.View(X, columns=['a', 'b', 'c'])", "columns=[ | dv.View(data, a=0, b=1)", "dv.View(X, a=0, b=1)"),
    ("dv.View(X, dtype='f4')", "dtype='f4' | ._astype(dtype)", "dv.View(X)._astype('f4')"),
    ("dv.View(X, readonly=True)", "_readonly=", "dv.View(X, _readonly=True)"),
    ("dv.View(X, _lenght=3)", "'_lenght' | '_length'", ""),
    ("dv.View(square, length=10)", "_length=", "dv.View(square, _length=10)"),
    ("dv.View(square)[0]", "square needs number | _length=n", "dv.View(square, _length=math.inf)[0]"),
    ("dv.View('t.npy')", "dv.open('t.npy')", "dv.open('t.npy')"),
    ("dv.View(input='t.npy')", "dv.View(input=dv.open('t.npy'))", "dv.View(input=dv.open('t.npy'))"),
    ("dv.View()", "data, of fields, or of both", "dv.View(X)"),
    ("dv.View(None)", "NoneType | [None]", "dv.View([None])"),
    ("dv.View({1, 2})", "set | sorted(values)", "dv.View(sorted({1, 2}))"),
    ("dv.View(input=X, target=np.s_[:2])", "target= | a window", "dv.View(X, target=np.s_[:2])"),
    ("dv.View(a=[1, 2], b=[1])[0]", "a 2, b 1 | _driver=", "dv.View(a=[1, 2], b=[1], _driver='a')[0]"),
    ("dv.open(X)", "ndarray | dv.View(", "dv.View(X)"),
    ("dv.open('t.csv', na='-')", "no option 'na'; write missing=['', '-']", "dv.open('t.csv', missing=['', '-'])"),
    ("dv.open('t.csv', delimeter=',')", "no option 'delimeter'; write sep=','", "dv.open('t.csv', sep=',')"),
    ("dv.open('t.csv', n_rows=1)", "no option 'n_rows'; write dv.open(path)[:1]", "dv.open('t.csv')[:1]"),
    ("dv.open('t.npy', 'rw')", "'r+' | 'rw'", "dv.open('t.npy', 'r+')"),
    ("dv.open('t.npy', 'w')", "shape= | dtype=", "dv.open('new.npy', 'w', shape=(2,), dtype='f4')"),
    ("dv.open('t.xlsx')", "read_excel", ""),
    ("x._save('t.xyz')", ".npy | '.xyz'", "x._save('new.npz')"),
    # --- calls, keys, truth
    ("d(3)", "d() | d[3]", "d[3]()"),
    ("d('petal')", "d() | d['petal']", "d['petal']()"),
    ("(lambda f: f(X))(d)", "a library that took it for a function | d()", "d()"),
    ("x[1.0]", "integers, slices | 1.0", "x[1]"),
    ("x[10]", "10 | axis 0 | size 4", "x[3]"),
    ("x[0, 0, 0]", "2 axes | 3", "x[0, 0]"),
    ("x[np.array([True, False])]", "2 entries | axis 0", ""),
    ("bool(x > 3)", "12 elements | _any() | _all()", "bool((x > 3)._any())"),
    ("r[r.n > 1 and r.n < 3]", "4 elements | &, | and ~", "r[(r.n > 1) & (r.n < 3)]"),
    ("r[r.n > 1 & r.n < 3]", "4 elements | (d > 1) & (d < 3)", "r[(r.n > 1) & (r.n < 3)]"),
    ("int(x)", "int() | one element | 12", "int(x[0, 0])"),
    ("math.sqrt(x)", "float() | one element | 12", "math.sqrt(x[0, 0])"),
    ("f'{x:.2f}'", "'.2f' | one element | np.round(d, 2)", "f'{np.round(x, 2)}'"),
    ("set(x)", "no hash | d._unique()()", "set(x._unique()().tolist())"),
    ("{x: 1}", "no hash", ""),
    ("list(r[0])", "one sample | d._iter_fields()", "dict(r[0]._iter_fields())"),
    ("set(r)", "no hash | d._drop_duplicates() | d._asdict()", "len(r._drop_duplicates())"),
    ("np.asarray(r, dtype=float)", "float64 | one array | 'n'", "np.asarray(r.n, dtype=float)"),
    ("len(x._mean())", "one element", ""),
    ("del x[0]", "d[rows] | d._filter(mask)", "x[1:]"),
    # --- unpacking
    ("n, label = r", "expected 2, got 4 | rows | d.petal, d.label, d.n | fields=('petal', 'label')", "petal, label, n = r._astuple()"),
    ("for petal, target in d._loader(3): pass", "expected 2, got 3 | rows | d.petal, d.target | fields=('petal', 'target')", "for petal, target in d._loader(3, fields=('petal', 'target')): pass"),
    ("for petal, target in d._minibatches(4): pass", "expected 2, got 4 | d.petal, d.target", "for batch in d._minibatches(4): batch.petal(), batch.target()"),
    ("petal, label, n = r[0]", "one sample | d.petal, d.label, d.n", "petal, label, n = r[0]._astuple()"),
    ("r._map(lambda n, label: n * label)", "takes 2 arguments, n and label, and gets one, the view of a row | row.petal(), row.label(), row.n()", "r._map(lambda row: row.n() * str(row.label()))[1]()"),
    ("x._map(lambda: 1)", "takes no arguments, and gets one, the view of a row | row()", "x._map(lambda row: 1)[0]()"),
    ("x._map(lambda row: 1, seed=0)", "takes 1 argument, row, and gets two, the view of a row and a random generator", "x._map(lambda row, rng: rng.random(), seed=0)[0]()"),
    ("r._filter(lambda petal, n: petal > n)", "takes 2 arguments, petal and n, and gets one, the view of a row", "r._filter(lambda row: row.petal() > row.n())[:]()"),
    ("r._map_batches(lambda petal, n: petal + n)", "takes 2 arguments, petal and n, and gets one, the view of a block of rows | rows.petal()", "r._map_batches(lambda rows: rows.petal() + rows.n())[:]()"),
    ("x._loader(2, collate=lambda x, y: x)", "takes 2 arguments, x and y, and gets one, a list of samples", "x._loader(2, collate=lambda samples: np.stack(samples))"),
    ("r._loader(2, shufle=True)", "no option 'shufle'; write sampler='permutation'.", "r._loader(2, sampler='permutation')"),
    ("r._loader(2, num_worker=1)", "'num_worker'; did you mean 'workers'?", "r._loader(2, workers=1)"),
    ("loader = r._loader(2); loader.close(); next(loader)", "closed, by close() or at the end of its with block | d._loader(...)", "next(r._loader(2))"),
    ("next(r._loader(2, collate=np.stack))", "collate stack made an array of dicts | 'petal', 'label', 'n'; without collate=", "next(r._loader(2))"),
    ("next(r._loader(2, collate=np.array))", "samples: np.stack([one['petal'] for one in samples])", "next(r._loader(2, collate=lambda samples: np.stack([one['petal'] for one in samples])))"),
    ("x._loader(2, transform=lambda x, y: x)", "takes 2 arguments, x and y, and gets one, the view of a sample", "x._loader(2, transform=lambda row: row() * 2)"),
    # --- writing
    ("ro[0] = 3", "memory | read-only | d._copy()", "ro._copy()[0] = 3"),
    ("f[0] = 3", "t.npy | dv.open(path, 'r+')", "dv.open('t.npy', 'r+')[0] = 3"),
    ("x._mean()[...] = 3", "the result of _mean", "x._mean()._copy()[...] = 3"),
    ("(x + 1)[0] = 3", "the result of np.add", "(x + 1)._copy()[0] = 3"),
    ("x._astype('f4')[0] = 3", "the result of _astype", "x._astype('f4')._copy()[0] = 3"),
    ("x._map(double)[0] = 3", "the result of _map double", "x._map(double)._copy()[0] = 3"),
    ("x[0] = [1, 2]", "(2,) | (3,) | (in View (4, 3) float64", "x[0] = [1, 2, 3]"),
    ("x._write(np.zeros((3, 3)))", "(3, 3) | (4, 3) | (in View (4, 3) float64", "x._write(np.zeros(3))"),
    ("d.target = 'a'", "the text 'a' (<U1) | float64 | (in View (4, 1) float64", "d.target = 1"),
    ("d.target = ['1', '2', '3', '15']", "cannot write <U2 into float64; np.asarray(value, 'float64')", "d.target = np.asarray([['1'], ['2'], ['3'], ['15']], 'float64')"),
    ("r.n[0] = 'a'", "the text 'a' (<U1) into int64 | dv.View(texts)._codes()", "r.n = r.label._codes()"),
    ("i[0] = 1.5", "1.5 | int64 | (in View (4,) int64 | np.asarray(value, 'int64')", "i[0] = np.asarray(1.5, 'int64')"),
    ("i += 0.5", "int64 | float64 | d._astype('float64')", "i = i + 0.5"),
    ("i /= 2", "int64 | float64 | d._astype('float64')", "i //= 2"),
    ("r[0] = 3", "petal, label, n | int", "r[0] = (1, 'a', 2)"),
    ("r[0] = (1, 'a')", "petal, label, n | 3 fields | 2", "r[0] = (1, 'a', 2)"),
    ("x[0], x[1] = x[1], x[0]", "v[[0, 1]] = v[[1, 0]]", "x[[0, 1]] = x[[1, 0]]"),
    # --- arithmetic
    ("x + np.zeros(5)", "add | (4, 3) (5,)", "x + np.zeros(3)"),
    ("np.zeros(5) + x", "add | (5,) (4, 3)", "np.zeros(3) + x"),
    ("x - dv.View(np.zeros((2, 2)))", "subtract | (4, 3) (2, 2)", ""),
    ("x @ x", "(4, 3) and (4, 3) | length 3 | 4", "x @ x._transpose()"),
    ("r + 1", "a record | 'petal', 'label', 'n'", "r.n + 1"),
    ("r.shape[1]", "the shape of its rows, (4,) | len(d._fields()) | d._to_pandas()", "len(r._fields())"),
    ("lists()", "field 'words' has rows that differ in length | _asdict() | d.words._pad(value)", "lists._asdict(); lists.words._pad(0)()"),
    ("np.asarray(dv.View(a=lists, k=[1, 2]))", "field 'a.words' has rows | d.a.words._pad(value)", "dv.View(a=lists, k=[1, 2]).a.words._pad(0)()"),
    ("dv.View(t=np.array(['a', 'b'], 'T'), k=[1, 2])()", "field 't' is of StringDType() | d.t._astype('U20')", "dv.View(t=dv.View(np.array(['a', 'b'], 'T'))._astype('U20'), k=[1, 2])()"),
    ("dv.View(f=u, k=[1, 2, 3, 4])()", "field 'f' has a dtype that is unknown | d = d._probe()", "dv.View(f=u, k=[1, 2, 3, 4])._probe()()"),
    ("r._mean()", "a record | 'petal', 'label', 'n'", "r.n._mean()"),
    ("r.label._mean()", "'label' | texts", "r.label._counts()"),
    ("u + 1", "shape is unknown | d = d._probe()", "u._probe() + 1"),
    ("u._mean()", "dtype is unknown | d = d._probe()", "u._probe()._mean()()"),
    ("x._quantile(50)", "[0, 1] | 50", "x._quantile(0.5)"),
    ("x._quantile('a')", "a number from 0 to 1, such as 0.5 | got 'a'", "x._quantile(0.5)()"),
    ("np.percentile(x, None)", "a number from 0 to 100, such as 50 | got None", "np.percentile(x, 50)"),
    ("groups._quantile('n')", "a number from 0 to 1 | got 'n'", "groups._quantile(0.5).n()"),
    ("x._astype('flot')", "no dtype 'flot'; did you mean 'float'?", "x._astype('float')()"),
    ("r.label._onehot(dtype='Int65')", "no dtype 'Int65'; did you mean 'int64'?", "r.label._onehot(dtype='int64')()"),
    ("dv.symbol('x', dtype='string')", "no dtype 'string'; write 'T', which is text of any length", "dv.symbol('x', dtype='T')"),
    ("x._astype('category')", "no dtype 'category'; write d._codes()", "r.label._codes()()"),
    ("dv.open('new.npy', 'w', shape=3, dtype='x9')", "no dtype 'x9' | 'f4', 'U10'", "dv.open('new.npy', 'w', shape=3, dtype='f4')"),
    ("x._reshape(5, 5)", "(4, 3) | 12 | (5, 5)", "x._reshape(3, 4)"),
    ("dv.symbol('x')._bind(X)", "d._bind(x=data)", "dv.symbol('x', shape=(None, 3))._bind(x=X)"),
    # --- an argument that other libraries have
    ("x._mean(dim=0)", "no argument 'dim' | write axis= | _mean(axis=None", "x._mean(axis=0)"),
    ("x._sum(axis=1, keepdim=True)", "'keepdim' | write keepdims=", "x._sum(axis=1, keepdims=True)"),
    ("x._mean(skipna=True)", "'skipna' | d._nanmean()", "x._nanmean()"),
    ("x._std(unbiased=True)", "'unbiased' | ddof=1", "x._std(ddof=1)"),
    ("x._mean(0, False, None, 3)", "too many positional arguments | _mean(axis=None", "x._mean(0)"),
    ("r._sorted(by='n', ascending=False)", "'ascending' | reverse=True", "r._sorted(by='n', reverse=True)"),
    ("r._sample(frac=0.5)", "'frac' | n=len(d) // 10", "r._sample(n=len(r) // 2)"),
    ("r._sample(2, random_state=0)", "'random_state' | seed=", "r._sample(2, seed=0)"),
    ("r._sample(9, replace=True)", "'replace' | integers(len(d)", "r[np.random.default_rng(0).integers(len(r), size=9)]"),
    ("r._split(test_size=0.2)", "'test_size' | d._split(0.8, 0.2, seed=0)", "r._split(0.5, 0.5, seed=0)"),
    ("r._split(0.5, shuffle=True)", "'shuffle' | seed=0", "r._split(0.5, seed=0)"),
    ("r._split(0.5, stratify='label')", "'stratify' | by=", "r._split(0.5, by='label')"),
    ("r._folds(n_splits=2)", "'n_splits' | k=", "r._folds(k=2)"),
    ("r._drop(columns=['n'])", "'columns' | d._drop('x', 'y')", "r._drop('n', 'petal')"),
    ("r._rename(columns={'n': 'm'})", "no field 'columns' | d._rename(old='new')", "r._rename(n='m')"),
    ("r._dropna(how='all')", "'how' | _notna()", "r[r.petal._notna()._any(axis=-1) | r.n._notna()]()"),
    ("r._drop_duplicates(keep='last')", "'keep' | d[::-1]._drop_duplicates(by='x')[::-1]", "r[::-1]._drop_duplicates(by='label')[::-1]()"),
    ("r._drop(0)", "0 | texts | d[rows]", "r._drop('n')()"),
    ("r._sorted()", "by= | a record", "r._sorted(by='n')()"),
    ("r.dtypes", "d._dtype()", "r._dtype()"),
    ("r._replace(0, 1)", "np.where(d == 0, 1, d)", "np.where(r.n == 0, 1, r.n)()"),
    ("r._pivot('label')", "d._group(by=", "r._group(by=['label', 'n'])._counts()"),
    ("r.n._dt.year", "d.x._astype('M8[Y]')", "r.n._astype('M8[D]')._astype('M8[Y]')()"),
    ("r.n._fillna(r.petal._mean())", "float | int | _astype('float", "r.n._astype('float64')._fillna(r.petal._mean())()"),
    ("r._dropna(subset=['petal'])", "'subset' | d._dropna('x', 'y')", "r._dropna('petal')"),
    ("r._drop_duplicates(subset=['label'])", "'subset' | by=", "r._drop_duplicates(by=['label'])"),
    ("r.label._unique(return_counts=True)", "'return_counts' | counts=True", "r.label._unique(counts=True)"),
    ("r.label._counts(normalize=True)", "'normalize' | counts.count / counts.count._sum()", "counts = r.label._counts(); counts.count / counts.count._sum()"),
    ("r._group('label', as_index=False)", "'as_index' | a field of each statistic", "r._group('label')._sum().label"),
    ("r._join(r, on='n', how='left')", "'how' | missing='mask' | np.isin(d.key, other.key)", "r._join(r._select('n'), on='n', missing='mask')"),
    ("r._map(double, num_proc=4)", "'num_proc' | _loader(batch_size, workers=4)", "r.n._map(double)._loader(2, workers=1)"),
    ("r._to_torch(dtype=float)", "'dtype' | d._astype('f4')._to_torch()", ""),
    ("x._show(figsize=(3, 3))", "'figsize' | _show(n=None)", "x._show()"),
    ("x._to_numpy()", "write d()", "x()"),
    ("groups['n']", "no group 'n' of 'label' | 'a', 'b'; | groups._mean().n", "groups._mean().n"),
    ("r.label.upper()", "d._map(lambda row: str(row()).upper())", "r.label._map(lambda row: str(row()).upper())[:]()"),
    ("days.year", "d._astype('M8[Y]')", "days._astype('M8[Y]')()"),
    ("days.month", "d._astype('M8[M]') - d._astype('M8[Y]') in its year", "(days._astype('M8[M]') - days._astype('M8[Y]'))()"),
    ("days > 2002", "greater takes no datetime64[D] and 2002 | np.datetime64(", "days > np.datetime64('2002-01-01')"),
    ("days + days", "add takes no datetime64[D] and datetime64[D] | np.timedelta64(3, 'D')", "days + np.timedelta64(3, 'D')"),
    ("r.n + 'a'", "add takes no int64 and <U1 | d._astype('T')", "r.n._astype('T') + 'a'"),
    ("r.label + 1", "add takes no <U1 and 1 | d._astype(float)", ""),
    ("~x", "invert takes no float64 | d > 0", "~(x > 0)"),
    ("x.device", "d._to_torch()", ""),
    ("x.hist()", "d._show()", "x._show()"),
    ("r._sorted(lambda row: row.n())", "by= takes fields | abs(d.x) | got the function '<lambda>'", "r._sorted(abs(r.n))()"),
    ("r._select(r.n)", "named by texts | got a view | d[rows]", "r._select('n')"),
    ("r._describe('n')", "columns= is True or False | 'n' | d._select('x', 'y')._describe()", "r._select('n')._describe()"),
    ("r._sample(0.5)", "whole number | 0.5 | len(d) // 10", "r._sample(len(r) // 2)"),
    ("r._head('2')", "whole number | '2'", "r._head(2)"),
    ("i[0] = None", "None | int64 | NaN | mask", ""),
    ("r._fillna(0)", "not a record | d.x = d.x._fillna(value)", "r.n = r.n._fillna(0)"),
    ("dv.View(X, fields=['a', 'b', 'c'])", "dv.View(data, a=0, b=1)", "dv.View(X, a=0, b=1, c=2)"),
    ("dv.View(X, _names=['a', 'b', 'c'])", "dv.View(data, a=0, b=1)", "dv.View(X, a=0, b=1, c=2)"),
    ("dv.ragged(5)", "a list of lists | 5", "dv.ragged([[5]])"),
    ("dv.ragged([[1, 2], [3]])[:, 0]", "the key [:, 0] | _pad(value)", "dv.ragged([[1, 2], [3]])._pad(0)[:, 0]"),
    ("dv.executor(4)", "ThreadPoolExecutor(4) | got 4", ""),
    ("dv.spaces.ImageSpace(28, 28)", "Conv2DSpace(shape=(28, 28), channels=1)", "dv.spaces.Conv2DSpace(shape=(28, 28), channels=1)"),
    ("r._loader(2).petal", "fields belong to its batches: batch.petal", "[batch.petal() for batch in r._loader(2)]"),
    ("x._mean('petal')", "axis of mean is an integer | 'petal' | d.x._mean()", "d.petal._mean()()"),
    ("x._std(axis='rows')", "axis of std is an integer | 'rows'", "x._std(axis=0)()"),
    ("r._isna()", "choose a field: 'petal', 'label', 'n' | d._missing()", "r._missing()()"),
    ("x.tanh()", "np.tanh(d)", "np.tanh(x)()"),
    ("r.pivot_table('n')", "d._group(by=['x', 'y'])", "r._group(by=['label', 'n'])._mean()()"),
    ("r.n > None", "None is no operand | d._isna()", "r.n._isna()"),
    ("x += None", "None is no operand | d._isna()", "x[...] = x._fillna(0)"),
    ("x += 'a'", "add takes no float64 and <U1 | d._astype(float)", "x += 1"),
    ("d += r", "add takes one array, not a record | 'petal', 'label', 'n'", "d.petal += r.petal[:, None]"),
    ("days - '2001-01-01'", "subtract takes no datetime64[D] and <U10 | np.datetime64(", "days - np.datetime64('2001-01-01')"),
    ("days == 'monday'", "'monday' is no date (it is not written as in ISO 8601 | '2026-11-22'", "days == '2001-02-03'"),
    ("days._mean()", "dates (datetime64[D]) | (d - d._min())._mean() + d._min()", "((days - days._min())._mean() + days._min())()"),
    ("d['petal':'target']", "make no slice | d['a', 'b']", "d['petal', 'target']"),
    ("r[0][0]", "one sample, without rows | d['petal']", "r[0]['petal']"),
    ("r[0] = {'n': 3}", "petal, label, n; the value has n | d.x[rows] = value", "r.n[0] = 3"),
    ("f2 = dv.open('t.npy', 'r+'); f2._append([1, 2, 3])", "shape (n, 3); got (3,); give one row in a list, as [row]", "f2 = dv.open('t.npy', 'r+'); f2._append([[1, 2, 3]])"),
    ("f2 = dv.open('t.npy', 'r+'); f2._append(np.zeros((2, 2)))", "shape (n, 3); got (2, 2)", ""),
    ("r._append((1, 'a', 2))", "a mapping, a record or a structured array; got (1, 'a', 2); d._append({'petal': ..., 'label': ..., 'n': ...})", ""),
    ("x._append([[1, 2, 3]])", "no rows can be added to memory | 'r+'", ""),
    ("r._save(3)", "_save takes the path | got 3", "r._save('new.npz')"),
    ("dv.View(X, _length=3)", "_length= | dv.View(data)[:n]", "dv.View(X)[:3]"),
    ("r.n._map(lambda row: None)[0]()", "sample 0 | the function returned None | a return", "r.n._map(lambda row: row())[0]()"),
    ("next(r._loader(2, seed=None))", "a seed is an integer | secrets.randbits(64) for another order", "next(r._loader(2, seed=0))"),
    ("next(r._loader(2, transform=lambda row: None))", "sample 0 | returned None; return the sample", "next(r._loader(2, transform=lambda row: row))"),
    ("r._take(r.n > 1)", "by number | bool (4,) | _filter(mask)", "r._filter(r.n > 1)"),
    ("r._group('n', 'label')", "write _group(by=['n', 'label'])", "r._group(by=['n', 'label'])"),
    ("r._sorted('n', 'petal')", "several fields are a list: by=['x', 'y']", "r._sorted(['n', 'label'])()"),
    ("r.n._map({0: 'a'})", "of a mapping, the function is lambda row: mapping[row()]", "r.n._map(lambda row: {0: 'a'}[int(row())])[0]()"),
    ("r._describe().petal", "write description['petal']", "r._describe()['petal']"),
    ("r._shuffled(None)", "a seed is an integer | secrets.randbits(64) for another order", "r._shuffled(0)"),
    ("r._to_polars()", "polars.DataFrame(d)", ""),
    ("r._repeat('2')", "a whole number of times | '2'", "r._repeat(2)"),
    ("r._join('t.csv')", "_join takes a view | dv.open(path) | 't.csv'", "r._join(dv.View(n=np.arange(4)))"),
    ("r._minibatches(2, workers=2)", "'workers' | d._loader(batch_size, workers=...)", "r._loader(2, workers=2)"),
    ("dv.collate(3)", "a list of samples | got 3", "dv.collate([3])"),
    ("np.array(dv.ragged([[1], [2, 3]]), dtype=float)", "ragged rows are no array of float64 | _pad(value)", "np.array(dv.ragged([[1], [2, 3]])._pad(0), dtype=float)"),
    ("r.first()", "d[0]", "r[0]"),
    ("r._last()", "d[-1]", "r[-1]"),
    ("r._rows", "d[rows]", "r[[0, 2]]"),
    ("r._with_field('n', 3)", "d._set_field(name, data)", "r._set_field('z', r.n + 1)"),
    # --- rows, batches, streams
    ("x._split([0.8, 0.3])", "1.1", "x._split([0.8, 0.2])"),
    ("x._split([80, 20])", "100 | 0.8, 0.2", "x._split([0.8, 0.2])"),
    ("x._split()", "d._split(0.8, 0.2)", "x._split(0.8, 0.2)"),
    ("x._loader(2, pad=True)", "write 0", "next(x._loader(2, pad=0))()"),
    ("x._loader(2, shuffle=True)", "'shuffle' | sampler='permutation'", "x._loader(2, sampler='permutation')"),
    ("x._minibatches(2, drop_last=True)", "'drop_last' | tail='drop'", "x._minibatches(2, tail='drop')"),
    ("x._loader(2, num_workers=2)", "'num_workers' | workers=2", "x._loader(2, workers=2)"),
    ("x._loader(2, epochs=3)", "'epochs' | for epoch in range(", "[list(x._loader(2)) for _ in range(3)]"),
    ("x._loader(2, batchsize=2)", "'batchsize' | 'batch_size'", "x._loader(batch_size=2)"),
    ("x._loader(2, 'shuffle')", "'shuffle' | 'permutation'", "x._loader(2, 'permutation')"),
    ("x._loader(2, 'random')", "'random' | 'permutation'", "x._loader(2, 'permutation')"),
    ("x._loader(2, 'SequentialSampler')", "'SequentialSampler' | 'linear'", "x._loader(2, 'linear')"),
    ("dv.samplers.RandomSampler", "'RandomSampler' | did you mean 'permutation'?", "dv.samplers.permutation"),
    ("dv.samplers.bukket", "'bukket' | did you mean 'bucket'?", "dv.samplers.bucket"),
    ("x._loader(2).dataset", "it was made by d._loader(...), and d is the data", ""),
    ("x._loader(2).set_epoch(1)", "each loop over the loader is an epoch", "[list(x._loader(2)) for _ in range(3)]"),
    ("x._loader(2).sampler", "an option | d._loader(batch_size, sampler=...)", "x._loader(2, sampler='permutation')"),
    ("x._loader(2).num_workers", "an option | d._loader(batch_size, workers=...)", "x._loader(2, workers=2)"),
    ("x._loader(2).next()", "write next(loader)", "next(x._loader(2))"),
    ("x._loader(2).num_batch", "'num_batch' | 'num_batches'", "x._loader(2).num_batches()"),
    ("x._loader(2, sampler=[0.5, 0.2, 0.3])", "[0.5, 0.2, 0.3] | samplers.weighted(by=weights)", "x._loader(2, sampler=dv.samplers.weighted(by=[0.5, 0.2, 0.3, 0.0]))"),
    ("r._minibatches(2, sampler=np.linspace(0, 1, 8))", "… | samplers.weighted(by=", "r._minibatches(2, sampler=dv.samplers.weighted(by='n'))"),
    ("x._loader(2, sampler=[True, False])", "[True, False] | np.flatnonzero(mask)", "x._loader(2, sampler=np.flatnonzero([True, False]))"),
    ("dv.View(X, y=np.arange(len(X)))", "reaches outside an axis of length 3 | columns the field has | dv.View(input=X, target=y)", "dv.View(x=X, y=np.arange(len(X)))"),
    ("loader = x._loader(2); loader.eopch = 3", "'eopch' | did you mean 'epoch'?", "x._loader(2).epoch"),
    ("loader = x._loader(2); loader.epoch = 3", "loader.epoch cannot be set | load_state_dict(state)", "x._loader(2).load_state_dict(x._loader(2).state_dict())"),
    ("loader = x._loader(2); loader.batch_size = 4", "options are given to d._loader(batch_size)", "x._loader(4)"),
    ("loader = x._loader(2); loader.workers = 4", "an option: d._loader(batch_size, workers=...)", "x._loader(2, workers=4)"),
    ("x._minibatches()", "a batch size", "x._minibatches(2)"),
    ("x._minibatches('2')", "batch_size= | '2'", "x._minibatches(2)"),
    ("r._filter('n > 1')", "d.x > 3 | function", "r._filter(r.n > 1)"),
    ("dv.zip(a=x, b=x[:2])", "a 4, b 2", "dv.zip(a=x, b=x)"),
    ("dv.concat(x, i)", "(3,) | () | view 1", "dv.concat(x, x)"),
    ("dv.concat(x, x, axis=1)", "concat has no argument 'axis' | np.concatenate([a, b], axis=1)", "np.concatenate([x, x], axis=1)"),
    ("dv.concat([r, r], ignore_index=True)", "'ignore_index' | rows have no index", "dv.concat([r, r])"),
    ("dv.concat(x, x, keys=['a', 'b'])", "'keys' | dv.zip(a=a, b=b)", "dv.zip(a=x, b=x)"),
    ("dv.concat('t.csv', 't.csv')", "view 0 | dv.open(path)", "dv.concat(dv.open('t.csv'), dv.open('t.csv'))"),
    ("dv.ragged([[1], [2, 3]], dtype='f4')", "'dtype' | _astype('f4')", "dv.ragged([[1], [2, 3]])._astype('f4')"),
    ("dv.symbol()", "'name' | symbol(name, shape=(), dtype=float", "dv.symbol('name')"),
    ("len(s)", "_length()", "s._length()"),
    ("s[-1]", "a slice that goes forward | -1", "s[3:4]()"),
    ("s()", "view[:n]()", "s[:5]()"),
    ("s._shuffled(0)", "pool=1000", "s._shuffled(0, pool=1000)[:2]()"),
    ("[list(once), list(once)]", "spent | dv.View(lambda: iter(...))", "list(dv.View(lambda: iter(range(2))))"),
]  # fmt: skip


def square(number):
    return number**2


def double(row):
    return row() * 2


@pytest.fixture
def names(tmp_path, monkeypatch):
    """What the lines of the table are typed with."""
    monkeypatch.chdir(tmp_path)
    X = np.arange(12.0).reshape(4, 3)
    np.save("t.npy", X)
    (tmp_path / "t.csv").write_text("name,age\nAda,36\nGrace,\n")
    (tmp_path / "t.xlsx").write_text("")
    return {
        "np": np, "dv": dv, "math": math, "operator": operator, "square": square, "double": double,
        "X": X, "y": np.arange(4), "labels": np.array([0, 1, 2, 1]), **_views(X),
    }  # fmt: skip


def _views(X):
    record = dv.View(petal=np.arange(4.0), label=np.array(list("abab")), n=np.arange(4))
    return {
        "x": dv.View(X.copy()),
        "d": dv.View(X.copy(), petal=np.s_[:2], target=np.s_[2:]),
        "r": record,
        "groups": dv.View(n=[1.0, 2.0, 3.0], label=["a", "b", "a"])._group(by="label"),
        "wide": dv.View(np.zeros((2, 1000)), **{f"f{n:03}": n for n in range(1000)}),
        "i": dv.View(np.arange(4)),
        "lists": dv.View(words=dv.ragged([[1, 2], [3]]), k=[4, 5]),
        "days": dv.View(np.array(["2001-02-03", "2004-05-06"], "M8[D]")),
        "ro": dv.View(X.copy(), _readonly=True),
        "f": dv.open("t.npy"),
        "u": dv.View(lambda number: [number], _length=4),
        "s": dv.View(lambda: iter(range(5))),
        "once": dv.View(iter(range(5))),
    }


def message_of(typed, names):
    with pytest.raises(Exception) as caught:  # the table says what it must name
        exec(typed, names)
    return f"{caught.type.__name__}: {caught.value}"


def test_the_table_has_more_than_a_hundred_mistakes():
    assert len({typed for typed, *_ in MISTAKES}) == len(MISTAKES) > 150


@pytest.mark.parametrize(("typed", "wanted"), [row[:2] for row in MISTAKES])
def test_a_mistake_is_told_with_what_to_write(typed, wanted, names):
    told = message_of(typed, names)
    wanted = wanted.replace("&, | and ~", "&, \0 and ~").split(" | ")
    assert [part for part in wanted if part.replace("\0", "|") not in told] == [], told


@pytest.mark.parametrize("instead", sorted({instead for *_, instead in MISTAKES if instead}))
def test_what_is_typed_instead_works(instead, names):
    exec(instead, names)


INTERNAL = r"undeclared|Visiting|Node\b|\b_state|\bnode\b|object at 0x|<function|dataview\.[a-z]+\."


def test_no_message_shows_what_is_internal_or_is_longer_than_a_paragraph(names, tmp_path):
    texts = {}
    for typed, *_ in MISTAKES:
        names |= _views(names["X"].copy())
        texts[typed] = message_of(typed, names).replace(str(tmp_path), "...")
    assert [text for text in texts.values() if re.search(INTERNAL, text)] == []
    assert {typed: text for typed, text in texts.items() if len(text) > 700} == {}
    whole = "".join(f">>> {typed}\n{text}\n\n" for typed, text in texts.items())
    check_files("mistakes", {"messages.txt": whole})
    check_text("mistakes", "messages.txt", whole)


# -------------------- names of other libraries --------------------

NEEDED = {
    "backward": "torch", "cuda": "torch", "device": "torch", "grad": "torch",
    "requires_grad": "torch",
    "cpu": "", "to": "torch", "to_device": "torch", "to_tensor": "torch", "as_tensor": "torch",
    "to_arrow": "pyarrow",
    "to_dataframe": "pandas", "bfill": "pandas", "ffill": "pandas", "interpolate": "pandas",
    "to_polars": "polars",
}  # fmt: skip
"""By a name, the library that the advice for it needs; these are tested as clients are."""


MEMBERS = {"d": dv.View(x=[3.0, 1.0], y=[2, 3])}
OTHERS = {
    "_join": {"d": dv.View(x=[1, 2], y=[3, 4]), "other": dv.View(x=[2, 1], z=[5, 6])},
    "_drop(": MEMBERS,
    "_select(": MEMBERS,
    "_rename": {"d": dv.View(old=[1, 2])},
    "d @": {"other": dv.View([[1.0], [2.0]])},
    "item()": {"d": dv.View([1.0])},
    "_sorted()": {"d": dv.View([3.0, 1.0])},
    "searchsorted": {"d": dv.View([1.0, 3.0])},
    "np.where": {"mask": np.array([[True], [False], [True]])},
}
"""By a part of the advice, the data that it is for."""


def lines_of(text):
    """The lines of code that a piece of advice names."""
    text = re.sub(
        r" (for an array|for more rows|in its .*|as the other.*|such as .*|then .*)",
        "",
        text.replace(", or ", "; "),
    )
    return [line.strip().strip(",") for line in text.split(";")]


@pytest.mark.parametrize("name", sorted(name for name in hints.INSTEAD if not NEEDED.get(name)))
def test_the_advice_for_a_name_of_another_library_works(name, tmp_path):
    a = np.array([[3.0, 1.0], [2.0, 5.0], [4.0, 0.0]])
    text = hints.INSTEAD[name]
    known = {
        "d": dv.View(a, x=0, y=1), "other": dv.View(a.copy(), x=0, y=1), "np": np, "dv": dv,
        "name": "x", "rows": [0, 2], "mask": a[:, 0] > 2, "function": lambda row: row() * 2,
        "path": tmp_path / "new.npz", "seed": 0, "batch_size": 2, "size": 2, "n": 1,
        "start": 0, "stop": 2, "values": [1.0, 2.0], "value": 7.0, "low": 1, "high": 3,
        "shape": (3, 2), "axes": (1, 0), "percent": 30, "bytes": 100, "k": 2, "exponent": 2,
        "data": a[:, 0].copy(), "space": dv.spaces.VectorSpace(1),
    }  # fmt: skip
    np.savez(known["path"], a)
    if "_append" in text:
        np.save(tmp_path / "grown.npy", a)
        known |= {"d": dv.open(tmp_path / "grown.npy", "r+"), "rows": a}
    known |= next((other for part, other in OTHERS.items() if part in text), {})
    for line in lines_of(text):
        exec("for row in d: pass" if line.startswith("for ") else line, known)


@pytest.mark.parametrize("name", sorted(hints.INSTEAD))
def test_the_advice_is_for_names_that_are_no_verbs(name):
    assert f"_{name}" not in verbs()
    with pytest.raises(AttributeError, match=re.escape(hints.INSTEAD[name])):
        getattr(dv.View([1.0]), name)


def test_a_field_of_any_of_these_names_is_a_field():
    for name in [*hints.INSTEAD, "mean", "shape"]:
        assert getattr(dv.View(**{name: [1, 2]}), name)().tolist() == [1, 2]


def test_a_view_has_no_hash_and_rounds_as_an_array():
    d = dv.View([1.26, 2.5, 3.5])
    with pytest.raises(TypeError, match="no hash"):
        hash(d)
    assert round(d)().tolist() == [1, 2, 4]
    assert round(d, 1)().tolist() == [1.3, 2.5, 3.5]


def test_unpacking_rows_is_no_mistake_where_as_many_are_wanted():
    d = dv.View(x=[1, 2], y=[3, 4])
    first, second = d
    one, *others = d[:2]
    assert [first.x(), second.y(), one.x(), len(others)] == [1, 4, 1, 1]
    with pytest.raises(ValueError, match="not enough values"):
        _, _, _ = d
    with pytest.raises(ValueError, match=r"expected 3, got 2\)$"):
        _, _, _ = d.x


def test_a_module_that_is_no_function_is_a_module_all_the_same():
    assert pickle.loads(pickle.dumps(dv.view)) is dv.view
    assert isinstance(dv.loader, types.ModuleType) and dv.view.View is dv.View


def test_dict_and_two_stars_take_the_fields():
    d = dv.View(x=[1, 2], y=dv.View(a=[3, 4]))
    assert [*dict(d)] == [*{**d}] == ["x", "y"]
    assert {**d}["x"] is d.x
    assert dict(**d[1])["x"]() == 2
    assert dv.View(**d)._fields() == d._fields()
    assert "keys" not in dir(d)
    assert dv.View(keys=[1, 2]).keys().tolist() == [1, 2]
    assert not hasattr(d.x, "keys")
    assert [*dict(dv.View(np.zeros((2, 3)), a=0, b=1))] == ["a", "b"]


def test_sizes_of_a_split_are_given_one_by_one_or_as_a_list():
    d = dv.View(np.arange(10))
    for sizes in ((0.8,), (0.8, 0.2), (8,), (8, 2), ([8, 2],), ((0.8, 0.2),)):
        assert [part().tolist() for part in d._split(*sizes)] == [list(range(8)), [8, 9]]
    one, other = d._split(5, 5, seed=1)
    assert sorted([*one().tolist(), *other().tolist()]) == list(range(10))
    assert one().tolist() == d._split([5, 5], seed=1)[0]().tolist() != list(range(5))
