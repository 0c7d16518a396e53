/** Pairs of devices come with the first limit and go after the last one, whoever comes between. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { BANDWIDTH, pairsOf, place } from './lab.ts'

requireRoot(t)

const ROUNDS = Number(process.env.ROUNDS ?? 40)

t.test('bw-03 bw-21 limits that are made while the devices of others are removed are all carried out', async (t) => {
  const it = await place(t, 1)
  const { node } = it
  const mac = (n: number) => `02:00:00:00:79:${n.toString(16).padStart(2, '0')}`
  const make = (n: number) => node.agent.call('POST', BANDWIDTH, { id: `l${n}`, target_mac: mac(n), rate_bps: 1e6 })
  const remove = (n: number) => node.agent.call('DELETE', `${BANDWIDTH}/l${n}`)
  let gone = 0
  await make(0)
  for (let round = 0; round < ROUNDS; round++) {
    // The last limit goes; upkeep comes after it, before the next one, after it, or in its middle.
    const removed = remove(round)
    if (round % 2) await removed
    if (round % 4 === 3) await new Promise((wait) => setTimeout(wait, round % 12))
    const made = await make(round + 1)
    t.equal(made.status, 200, `round ${round}: ${made.text}`)
    t.equal((await removed).status, 200)
    const names = pairsOf(it)
    t.ok(names.length === 2 || names.length === 4, `round ${round}: ${names}`)
    const classes = names.map((name) => node.ns.run('tc', 'class', 'show', 'dev', name)).join('')
    t.equal([...classes.matchAll(/class htb 1:/g)].length, 2, `round ${round}: one class each way`)
    if (names.length === 2) gone++
  }
  t.ok(gone > 0, 'devices came and went meanwhile')
  await remove(ROUNDS)
  await it.until('no device is left', () => pairsOf(it).length === 0)
})
