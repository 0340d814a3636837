// XState 5 with better-sqlite3, the usual way: an upsert of the persisted snapshot after each event.
//
// Measured: `actor.send` of an event to a machine of four states in a ring, whose action assigns the
// values, then `getPersistedSnapshot`, `JSON.stringify` and an upsert of the text. With many charts
// each one is an actor that the root invokes: the event goes to it, and the root is persisted, which
// holds all of them. The file has a write-ahead log and `synchronous=NORMAL`.
//
// The protocol is that of `bench/peers/protocol.py`. The packages lie in the folder that is given.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { join } from 'node:path';

const require = createRequire(join(process.argv[2], 'package.json'));
const { assign, createActor, createMachine } = require('xstate');
const Database = require('better-sqlite3');

const NAMES = ['packing', 'packed', 'shipped', 'returned'];
const take = assign({ values: ({ event }) => event.values });

const ring = createMachine({
  id: 'ring',
  context: ({ input }) => ({ values: input }),
  initial: NAMES[0],
  states: Object.fromEntries(NAMES.map((name, place) => [
    name, { on: { go: { target: NAMES[(place + 1) % NAMES.length], actions: take } } },
  ])),
});

const worker = createMachine({
  id: 'worker',
  context: ({ input }) => ({ values: input }),
  initial: 'working',
  states: { working: { on: { tell: { actions: take } } } },
});

const pool = (charts) => createMachine({
  id: 'pool',
  initial: 'working',
  states: {
    working: { invoke: charts.map((input, place) => ({ id: `worker${place}`, src: worker, input })) },
  },
});

class Subject {
  constructor(folder, charts) {
    this.count = charts.length;
    this.database = new Database(join(folder, 'xstate.db'));
    this.database.pragma('journal_mode = WAL');
    this.database.pragma('synchronous = NORMAL');
    this.database.exec('create table runs (id integer primary key, snapshot text not null)');
    this.upsert = this.database.prepare(
      'insert into runs (id, snapshot) values (1, ?) '
      + 'on conflict (id) do update set snapshot = excluded.snapshot');
    this.select = this.database.prepare('select snapshot from runs');
    this.actor = this.count > 1
      ? createActor(pool(charts)).start()
      : createActor(ring, { input: charts[0] }).start();
    this.save();
  }

  save() {
    this.upsert.run(JSON.stringify(this.actor.getPersistedSnapshot()));
  }

  tell(place, values) {
    if (this.count > 1) {
      this.actor.getSnapshot().children[`worker${place}`].send({ type: 'tell', values });
    } else {
      this.actor.send({ type: 'go', values });
    }
    this.save();
  }

  measure(steps) {
    return steps.map(([place, values]) => {
      const start = process.hrtime.bigint();
      this.tell(place, values);
      return Number(process.hrtime.bigint() - start);
    });
  }

  stored() {
    const { snapshot } = this.select.get();
    const found = JSON.parse(snapshot);
    if (this.count === 1) return [found.context.values];
    return Array.from({ length: this.count }, (_, place) =>
      found.children[`worker${place}`].snapshot.context.values);
  }
}

const subjects = new Map();

function answer(asked) {
  if (asked.do === 'open') {
    subjects.set(asked.run, new Subject(asked.folder, asked.charts));
    return { opened: asked.run };
  }
  const subject = subjects.get(asked.run);
  return asked.do === 'measure' ? { ns: subject.measure(asked.steps) } : { stored: subject.stored() };
}

const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

say({
  ready: 'xstate',
  versions: {
    node: process.versions.node,
    xstate: require('xstate/package.json').version,
    'better-sqlite3': require('better-sqlite3/package.json').version,
  },
});
for await (const line of createInterface({ input: process.stdin })) {
  try {
    say(answer(JSON.parse(line)));
  } catch (error) {
    process.stderr.write(`${error.stack}\n`);
    say({ error: String(error) });
  }
}
for (const subject of subjects.values()) subject.database.close();
