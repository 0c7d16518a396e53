import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { openPulse, type Sign, signOf, whyHung } from '../health.ts'

const IDLE: Sign = { state: 'S', used: 100, started: '7', busy: false }

/** A responder that does not answer from now on, a clock, and an agent that beats. */
function setUp(sign: () => Sign | undefined = () => IDLE) {
  const clock = { now: 0 }
  const hung: string[] = []
  const answers: (() => void)[] = []
  const beat = openPulse({
    ping: () => new Promise<void>((resolve) => void answers.push(resolve)),
    ...{ sign, clock: () => clock.now, onHung: (why: string) => void hung.push(why) },
  })
  const live = async (ms: number, step = 250) => {
    for (let passed = 0; passed < ms; passed += step) {
      clock.now += step
      beat()
      await turn()
    }
  }
  return { hung, answers, live }
}

t.test('who does not answer within two seconds and has no excuse is given up, once', async (t) => {
  const { hung, live } = setUp()
  await live(1000)
  await live(1750)
  t.same(hung, [])
  await live(5000)
  t.same(hung, ['it did not answer for 2000 ms, and it does nothing'])
})

t.test('who answers is asked again a second later', async (t) => {
  const { hung, answers, live } = setUp()
  for (let n = 1; n <= 5; n++) {
    await live(1000)
    t.equal(answers.length, n)
    answers.at(-1)?.()
    await turn()
  }
  t.same(hung, [])
})

t.test('an agent that was late itself, or stopped, blames nobody for it', async (t) => {
  const { hung, live } = setUp()
  await live(1000)
  await live(60_000, 600)
  t.same(hung, [])
  await live(1750)
  t.same(hung, [])
  await live(250)
  t.equal(hung.length, 1, 'control')
})

t.test('what it does meanwhile decides', async (t) => {
  const asked = IDLE
  t.match(whyHung(asked, { ...IDLE, state: 'T' }), /SIGSTOP/)
  t.match(whyHung(asked, { ...IDLE, state: 'R', busy: true, used: 2100 }), /2000 ms of processor time/)
  t.equal(whyHung(asked, { ...IDLE, state: 'R', busy: true, used: 1900 }), undefined, 'it waits for a processor')
  t.equal(whyHung(asked, { ...IDLE, state: 'D', busy: true }), undefined, 'it waits for a disk')
  t.equal(whyHung(asked, { ...IDLE, busy: true }), undefined, 'one of its threads does')
  t.equal(whyHung(asked, undefined), undefined, 'it is gone')
  t.equal(whyHung(asked, { ...IDLE, started: '8', state: 'T' }), undefined, 'another has its number')
})

t.test('one that waits for a processor is given up when it is stopped after all', async (t) => {
  const now = { sign: { ...IDLE, state: 'R', busy: true } }
  const { hung, live } = setUp(() => now.sign)
  await live(30_000)
  t.same(hung, [])
  now.sign = { ...IDLE, state: 'T' }
  await live(250)
  t.equal(hung.length, 1)
})

t.test('the kernel is asked of a process', async (t) => {
  const sign = signOf(process.pid)
  t.match(sign, { state: 'R', busy: true, started: /^[0-9]+$/ })
  t.ok((sign?.used ?? 0) > 0)
  t.equal(signOf(2 ** 22 + 1), undefined)
})
