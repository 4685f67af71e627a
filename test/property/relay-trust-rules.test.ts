/**
 * Each rule by which a host trusts a relay is needed: a history in which a host without the rule errs, and a host with
 * it does not. The histories are written by hand, since random ones (relay-trust.test.ts) seldom or never reach what
 * some rules are for: what was refused is asked again, and mail makes new looks.
 */
import { expect, test } from 'vitest';
import { KNEW_BYTES, makeKnew, noteHash } from '../../src/protocol/seen.ts';
import { relay as relayHost } from '../support/hosts.ts';
import { rememberSignatures } from '../support/remembered-signatures.ts';
import {
  FALSE_WORD,
  MAIL_LOST,
  NEEDLESS_EPOCH,
  NOT_SEEN,
  TOO_OFTEN,
  faultsOf,
} from '../support/trust/judged-worlds.ts';
import type { Lacking } from '../support/trust/model-host.ts';
import { type WorldKind, rewrite } from '../support/trust/model-worlds.ts';
import { Scene } from '../support/trust/scene.ts';

rememberSignatures();

interface Control {
  rule: Lacking;
  kind: WorldKind;
  fault: string;
  /** False for a relay of before. */
  givesAfter?: boolean;
  history: (scene: Scene) => void;
}

/** Host a is shown a new epoch, and host b the log as it was; mail goes through both. */
function forkEpoch(scene: Scene): void {
  const { relay } = scene;
  relay.isLying = true;
  relay.isBridged = true;
  const other = relay.store.copy();
  other.rotate();
  relay.views.set('a', other);
  for (let nth = 0; nth < 6; nth++) scene.sendAndPass(12);
}

/** Each has heard what the other one showed, and says so, before either looks again: what they send has no note. */
function hearAll(scene: Scene): void {
  const { relay } = scene;
  const answer = relay.answer.bind(relay);
  relay.answer = () => ({ type: 'none' });
  for (let nth = 0; nth < 3; nth++) scene.sendAndPass(2);
  relay.answer = answer;
}

const CONTROLS: Control[] = [
  { rule: 'notes of peers', kind: 'epoch fork', fault: NOT_SEEN, history: forkEpoch },
  { rule: 'own notes', kind: 'epoch fork', fault: NOT_SEEN, history: forkEpoch },
  {
    rule: 'news',
    kind: 'epoch fork',
    fault: NOT_SEEN,
    history: (scene) => {
      hearAll(scene);
      forkEpoch(scene);
    },
  },
  {
    rule: 'proofs of rows',
    kind: 'left out',
    fault: NOT_SEEN,
    history: (scene) => {
      scene.relay.isLying = true;
      scene.relay.leavesOut = (host) => host === 'a';
      scene.sendAndPass(60);
    },
  },
  {
    rule: 'left epochs',
    kind: 'old epoch again',
    fault: NOT_SEEN,
    history: (scene) => {
      const { relay } = scene;
      relay.isLying = true;
      const old = relay.store.copy();
      relay.store.rotate();
      scene.sendAndPass(25);
      relay.store = old;
      scene.sendAndPass(60);
    },
  },
  {
    rule: 'earlier epochs',
    kind: 'rewrite',
    fault: NOT_SEEN,
    // One backup is restored twice, and the second time with another past.
    history: (scene) => {
      const { relay } = scene;
      const [backup, another] = [relay.store.copy(), relay.store.copy()];
      relay.store = backup;
      relay.store.rotate();
      scene.sendAndPass(25);
      relay.isLying = true;
      relay.store = another;
      rewrite(relay.store);
      scene.sendAndPass(40);
    },
  },
  {
    rule: 'ends of looks',
    kind: 'honest',
    fault: FALSE_WORD,
    // The relay answers with its head and goes down, at every look.
    history: (scene) => {
      const { relay } = scene;
      const answer = relay.answer.bind(relay);
      relay.answer = (host, question) => (question.ask === 'head' ? answer(host, question) : { type: 'none' });
      scene.sendAndPass(45);
      relay.answer = answer;
      scene.pass(30);
    },
  },
  {
    rule: 'patience',
    kind: 'honest',
    fault: FALSE_WORD,
    // A reader that lags behind does not know the newest head.
    history: (scene) => {
      scene.relay.refuses = () => true;
      scene.sendAndPass(5);
      scene.relay.refuses = () => false;
      scene.pass(30);
    },
  },
  {
    rule: 'old answers',
    kind: 'honest',
    fault: FALSE_WORD,
    givesAfter: false,
    // A cache has the note of before the last mail, for fifty minutes.
    history: (scene) => {
      const old = scene.relay.store.tip.note();
      scene.sendAndPass(25);
      scene.relay.cached.set('a', old);
      scene.sendAndPass(50);
      scene.relay.cached.clear();
      scene.pass(30);
    },
  },
  {
    rule: 'waiting a minute',
    kind: 'honest',
    fault: NEEDLESS_EPOCH,
    // A copy of the store is put back, and a minute later its operator begins the epoch that says so.
    history: (scene) => {
      const { relay } = scene;
      const copy = relay.store.copy();
      scene.sendAndPass(3);
      scene.sendAndPass(25);
      relay.store = copy;
      scene.sendAndPass(1);
      relay.store.rotate();
      scene.pass(40);
    },
  },
  {
    rule: 'fresh answers',
    kind: 'honest',
    fault: FALSE_WORD,
    // A cache has the last note of the epoch before, for half an hour.
    history: (scene) => {
      const { relay } = scene;
      const old = relay.store.tip.note();
      relay.store.rotate();
      scene.sendAndPass(25);
      relay.cached.set('a', old);
      scene.sendAndPass(33);
      relay.cached.clear();
      scene.pass(40);
    },
  },
  {
    rule: 'signed order',
    kind: 'lying peer',
    fault: FALSE_WORD,
    // A peer says of an old note that it was signed after a new one.
    history: (scene) => {
      const { relay, a, random } = scene;
      const checkpoint = relay.store.tip.note(2, random.bytes(KNEW_BYTES));
      relay.store.rotate();
      scene.sendAndPass(25);
      const ofA = a.seen().map((seen) => noteHash(seen.checkpoint));
      const knew = makeKnew(ofA, (count) => random.bytes(count)).toString('base64');
      a.hear('z', [{ relay: relayHost.key, checkpoint, knew }]);
      scene.pass(40);
    },
  },
  {
    rule: 'unknown epochs',
    kind: 'honest',
    fault: FALSE_WORD,
    // Host a sleeps through an epoch that a restore takes away, and is told of it in mail of that time.
    history: (scene) => {
      const { relay, a, b } = scene;
      const backup = relay.store.copy();
      relay.store.rotate();
      scene.join('c');
      scene.sleep(a, 30);
      b.send('c');
      scene.pass(12);
      b.send('a');
      scene.pass(1);
      relay.store = backup;
      relay.store.rotate();
      scene.pass(60);
    },
  },
  {
    rule: 'owed looks',
    kind: 'copy put back',
    fault: MAIL_LOST,
    // What was accepted soon after a look is lost before the next one. That one does not end, and no more mail comes.
    history: (scene) => {
      const { relay, b } = scene;
      const answer = relay.answer.bind(relay);
      scene.sendAndPass(4);
      const copy = relay.store.copy();
      scene.sleep(b, 60);
      scene.sendAndPass(2);
      relay.store = copy;
      relay.answer = () => ({ type: 'none' });
      scene.pass(10);
      relay.answer = answer;
      scene.pass(90);
    },
  },
  {
    rule: 'shown notes',
    kind: 'copy put back',
    fault: MAIL_LOST,
    // Host a has seen its mail in the log and does not look again; host b does, and so makes the relay tell all.
    history: (scene) => {
      const { relay, a, b } = scene;
      const c = scene.join('c');
      const copy = relay.store.copy();
      scene.sleep(c, 60);
      a.send('c');
      b.send('c');
      scene.pass(25);
      relay.store = copy;
      b.send('c');
      scene.pass(90);
    },
  },
  {
    rule: 'heads that went back',
    kind: 'copy put back',
    fault: TOO_OFTEN,
    givesAfter: false,
    // The log needs hours until it is as long as it was.
    history: (scene) => {
      const { relay, a } = scene;
      const copy = relay.store.copy();
      for (let nth = 0; nth < 40; nth++) a.send('b');
      scene.pass(25);
      relay.store = copy;
      for (let nth = 0; nth < 10; nth++) scene.sendAndPass(30);
    },
  },
  {
    rule: 'bounded pushes',
    kind: 'see-saw',
    fault: TOO_OFTEN,
    // The relay goes back and on again, and proves only what is as it says.
    history: (scene) => {
      const { relay } = scene;
      relay.isLying = true;
      const low = { log: relay.store.tip, size: 2 };
      relay.refuses = (host) => relay.frozen.has(host);
      for (let nth = 0; nth < 12; nth++) {
        relay.frozen.set('a', low);
        scene.sendAndPass(12);
        relay.frozen.clear();
        scene.sendAndPass(12);
      }
    },
  },
];

function faultsIn({ kind, history, givesAfter }: Control, lacks?: Lacking): string[] {
  const scene = new Scene(kind, { lacks, ...(givesAfter !== undefined && { givesAfter }) });
  history(scene);
  return faultsOf(scene);
}

test('a relay that keeps back what carries a note hides nothing: none of it is confirmed, and the next has it', () => {
  const scene = new Scene('epoch fork', {});
  const { relay, a, b } = scene;
  hearAll(scene);
  const sent = [...a.rows.values()].length;
  relay.swallows = ({ seen }) => seen.length > 0;
  forkEpoch(scene);
  const since = [...a.rows.values()].slice(sent);
  // What left before the look in the other epoch has no note, and arrives.
  const [first, ...later] = since;
  expect([first!.item.seen, b.received.has(first!.item.id)]).toEqual([[], true]);
  expect(later.length).toBeGreaterThan(4);
  for (const { item, isDone } of later) expect([item.seen.length, isDone]).toEqual([1, false]);
  expect(b.evidence).toEqual([]);
  relay.swallows = () => false;
  for (let nth = 0; nth < 2; nth++) scene.sendAndPass(12);
  expect([a.words, b.words]).toEqual([['two-epochs'], ['two-epochs']]);
});

test.each(CONTROLS)('without $rule, where the world is $kind: $fault', (control) => {
  expect(faultsIn(control)).toEqual([]);
  expect(faultsIn(control, control.rule)).toContainEqual(expect.stringContaining(control.fault));
});
