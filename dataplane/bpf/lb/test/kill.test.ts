import '../../../../test/inside.ts'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { requireRoot } from '../../../../test/netns.ts'
import type { Passage } from '../../../entry.ts'
import { passages } from '../../../entry.ts'
import { backend, lab, tallied, VIP, vip } from './lab.ts'

requireRoot(t)

const it = await lab(t, 3)
for (const [n, machine] of it.backends.entries()) {
  await machine.tell('listen', { protocol: 'tcp', port: 8080, name: `b${n + 1}` })
}
const at = { address: VIP, port: 80 }
const entry = vip({ backends: [backend(1), backend(2), backend(3)] })
const wanted = vip({ backends: [backend(1), backend(2)], algorithm: 'least-conn' })

t.test(
  'an agent that is killed at any moment leaves connections alone, and what the next one makes right (lb-26)',
  async (t) => {
    await it.put(vip({ backends: [backend(1)] }))
    const { handle } = await it.client.tell('open', at)
    await it.put(entry, vip({ backends: [backend(1)] }))
    for (let round = 0; round < 8; round++) {
      await it.balancer.driver.close()
      const script = fileURLToPath(new URL('./agent.js', import.meta.url))
      const agent = fork(script, [it.root], { execArgv: [], env: { ...process.env, NODE_OPTIONS: '' } })
      await once(agent, 'message')
      // Not to hide a race but to have one: each round kills somewhere else.
      await new Promise((done) => setTimeout(done, 7 * round))
      const gone = once(agent, 'exit')
      agent.kill('SIGKILL')
      await gone
      t.equal(await it.client.tell('say', { handle, text: 'nobody is here' }), 'same')
      await it.reopen()
      const found = await it.balancer.driver.observe()
      const diff: Passage[] = passages(found, [entry])
      await it.apply(...diff)
      t.same(await it.balancer.driver.observe(), [entry], `round ${round}: ${diff.length} passages`)
      t.equal(await it.client.tell('say', { handle, text: 'the next agent' }), 'same')
      t.equal(Object.keys(tallied(await it.client.tell('ask', { ...at, count: 6 }))).length, 3)
    }
    await it.put(wanted, entry)
    await it.client.tell('close', { handle, how: 'fin' })
    await it.apply({ before: wanted })
  },
)

t.same(it.problems, [])
