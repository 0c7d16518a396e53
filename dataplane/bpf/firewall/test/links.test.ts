/** Programs that are put in place of others, or were taken off; and what an agent leaves behind in its own process. */
import '../../../../test/inside.ts'
import { execFileSync } from 'node:child_process'
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { requireRoot } from '../../../../test/netns.ts'
import { layoutDir } from '../../bpffs.ts'
import { openObject } from '../../object.ts'
import { bpffs } from '../../test/support.ts'
import { FilterLinks } from '../links.ts'
import { FIREWALL_OBJECT, openClassifier } from '../open.ts'
import { ruleWith } from './small.ts'
import { udp4, udp6, wire } from './wire.ts'

requireRoot(t)

const root = bpffs(t)
const cable = wire(t)
const onProblem = (error: unknown) => t.fail(String(error))
const [DIR, DENY] = [
  () => layoutDir(join(root, 'firewall')),
  { kind: 'filter_default', key: 'firewall/filter_default', accept: false },
] as const
const pins = () => readdirSync(join(DIR(), 'links')).sort()

async function deny() {
  const it = await openClassifier({ root, onProblem })
  await it.rules.apply([
    ...(await it.rules.observe()).map((before) => ({ before })),
    { after: ruleWith(1, { destPorts: [80, 80] }) },
  ])
  await it.defaults.apply([{ after: DENY }])
  return it
}

/** Sends packets that must pass and others that must not, until `work` is done. */
async function judgedDuring(work: () => Promise<unknown>): Promise<string> {
  let done = false
  const pending = work().finally(() => {
    done = true
  })
  const fates = new Set<string>()
  for (let port = 1000; !done || port < 1003; port++) {
    fates.add(String(await cable.send(udp4(port, 80), udp4(port, 81), udp6(port, 80), udp6(port, 81))))
  }
  await pending
  return [...fates].join(' ')
}
const JUDGED = 'true,false,true,false'

t.test('another build is attached beside, and the first taken off', async (t) => {
  const it = await deny()
  const first = pins()
  t.equal(first.length, 2)
  const object = openObject(FIREWALL_OBJECT, { pinDir: DIR() })
  await object.load()
  t.teardown(() => object.close())
  const next = new FilterLinks(DIR(), object, 'feedfacefeedface')
  t.equal(await judgedDuring(() => next.attach()), JUDGED)
  t.same(pins(), ['firewall4-feedfacefeedface', 'firewall6-feedfacefeedface'])
  t.equal(await next.attach(), false, 'nothing is missing')
  t.equal(await judgedDuring(() => it.rules.observe()), JUDGED, 'and back')
  t.same(pins(), first)
  await it.defaults.apply([{ after: DENY }])
  await it.close()
})

t.test('an upgrade that was cut short twice does not stop the next', async (t) => {
  const it = await deny()
  const object = openObject(FIREWALL_OBJECT, { pinDir: DIR() })
  await object.load()
  t.teardown(() => object.close())
  const second = new FilterLinks(DIR(), object, '2222222222222222')
  // Killed when the new programs were in place and the old were not gone.
  const old = pins().map((pin) => join(DIR(), 'links', pin))
  await it.close()
  const { openLink } = await import('../../link.ts')
  const held = old.map((pin) => openLink(pin))
  for (const pin of old) rmSync(pin)
  await second.attach()
  for (const [n, link] of held.entries()) link.pin(old[n] ?? '')
  for (const link of held) await link.close()
  t.equal(pins().length, 4)
  const third = new FilterLinks(DIR(), object, '3333333333333333')
  t.equal(await judgedDuring(() => third.attach()), JUDGED)
  t.same(pins(), ['firewall4-3333333333333333', 'firewall6-3333333333333333'])
})

t.test('programs that somebody took off are put back, and nothing is admitted for that', async (t) => {
  const it = await deny()
  for (const taken of [pins().slice(1), pins()]) {
    for (const pin of taken) rmSync(join(DIR(), 'links', pin))
    await it.rules.observe()
    t.equal(pins().length, 2)
    t.same(await it.defaults.observe(), [], 'told of as a default that was not in force')
    t.equal(await judgedDuring(async () => {}), JUDGED, 'which is still')
    await it.defaults.apply([{ after: DENY }])
    t.same(await it.defaults.observe(), [DENY])
  }
  rmSync(join(DIR(), 'links'), { recursive: true })
  await it.rules.observe()
  t.equal(pins().length, 2, 'also when the folder is gone')
  await it.close()
})

t.test('a link that somebody has detached is put back', async (t) => {
  const it = await deny()
  for (const pin of pins()) execFileSync('bpftool', ['link', 'detach', 'pinned', join(DIR(), 'links', pin)])
  await it.rules.observe()
  t.equal(pins().length, 2)
  t.same(await it.defaults.observe(), [], 'told of as a default that was not in force')
  t.equal(await judgedDuring(async () => {}), JUDGED)
  await it.defaults.apply([{ after: DENY }])
  await it.rules.observe()
  t.same(await it.defaults.observe(), [DENY], 'and what stands is left alone')
  await it.close()
})

t.test('where pins of maps are missing the next agent makes new ones, and until then the old ones judge', async (t) => {
  await (await deny()).close()
  rmSync(join(DIR(), 'filter_settings'))
  const it = await openClassifier({ root, onProblem })
  t.teardown(() => it.close())
  t.same(await it.rules.observe(), [])
  t.equal(await judgedDuring(async () => {}), JUDGED, 'by the maps of before')
  await it.rules.apply([{ after: ruleWith(1, { destPorts: [82, 82] }) }])
  await it.defaults.apply([{ after: DENY }])
  await it.rules.observe()
  t.equal(readdirSync(join(root, 'firewall')).length, 1, 'which are gone')
  const passes = await until(async () => String(await cable.send(udp4(2000, 80), udp4(2001, 82))), 'false,true')
  t.equal(passes, 'false,true', 'the new ones judge')
})

/** Asks until the answer is that; the last answer. */
async function until(ask: () => Promise<string>, wanted: string): Promise<string> {
  for (let left = 200; ; left--) {
    const answer = await ask()
    if (answer === wanted || left === 0) return answer
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

t.test('a closed classifier keeps no descriptors, and is not asked any more', async (t) => {
  const open = () => readdirSync('/proc/self/fd').length
  await (await deny()).close()
  const before = open()
  for (let n = 0; n < 10; n++) {
    const it = await deny()
    await it.rules.observe()
    await it.close()
  }
  t.equal(open(), before)
  const it = await deny()
  await it.close()
  await t.rejects(it.defaults.observe(), /closed/)
  await t.rejects(it.defaults.apply([{ after: DENY }]), /closed/)
  await t.rejects(it.rules.observe(), /closed/)
  await t.rejects(it.rules.apply([]), /closed/)
  t.equal(await judgedDuring(async () => {}), JUDGED, 'packets are judged without the agent')
})
