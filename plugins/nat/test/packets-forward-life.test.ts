/** Port forwards over time: what becomes of connections when the agent ends, and when a forward does. */
import t from 'tap'
import { requireRoot } from '../../../test/netns.ts'
import { FORWARD } from './area.ts'
import { ask, falls, open, serve } from './host.ts'
import { CLIENT, FAMILIES, lab, MATE, PROTOCOLS, PUBLIC, SERVER } from './lab.ts'

requireRoot(t)
const KINDS = FAMILIES.flatMap((family) => PROTOCOLS.map((proto) => ({ family, proto })))

t.test('fwd-10 a forward holds while the agent is away, and after its death', async (t) => {
  const { client, forward, agent, held } = await lab(t)
  for (const family of FAMILIES) await forward(PUBLIC[family], 80, SERVER[family], 8080)
  const reached = async (when: string) => {
    for (const { family, proto } of KINDS) {
      const answer = await ask(client, proto, PUBLIC[family], 80)
      t.equal(answer, `${CLIENT[family]} server`, `${proto} over IPv${family} ${when}`)
    }
  }
  const talk = await open(client, 'tcp', PUBLIC[4], 80)
  t.ok(await talk?.say())
  const { body } = await agent.call('GET', FORWARD)
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    await agent.kill(signal)
    await reached(`after ${signal}`)
    await agent.restart()
    await reached('after the restart')
    t.same((await agent.call('GET', FORWARD)).body, body)
    t.ok(await talk?.say(), 'the connection goes on')
  }
  t.same(held('nat_public4'), [`${PUBLIC[4]} . 80`])
  t.equal(agent.logged.filter(({ msg }) => msg === 'kernel brought to the store').length, 1, 'at the first start only')
})

t.test('fwd-09 D61 deletion ends the connections of that forward, and only those', async (t) => {
  const { client, mate, node, forward, remove, held } = await lab(t)
  await serve(node, 'node', 90)
  for (const { family, proto } of KINDS) {
    const name = `${proto} over IPv${family}`
    const to = [SERVER, SERVER, MATE].map((target) => target[family])
    const ids: number[] = []
    for (const [at, target] of to.entries()) ids.push(await forward(PUBLIC[family], 80 + at, target, 8080))
    const talks = async (port: number, from = client, host = PUBLIC[family]) => {
      const talk = await open(from, proto, host, port)
      if (talk === undefined || !(await talk.say())) throw new Error(`control: ${name} ${host} ${port} does not answer`)
      return talk
    }
    const ended = [await talks(80), await talks(80, mate), await talks(80, node)]
    const others = [await talks(81), await talks(82), await talks(90), await talks(8080, client, SERVER[family])]
    await remove(`${FORWARD}/${ids[0]}`)
    for (const [at, talk] of ended.entries()) t.ok(await falls(talk), `${name}: ${at} is ended`)
    for (const [at, talk] of others.entries()) t.ok(await talk.say(), `${name}: ${at} of others goes on`)
    t.equal(await ask(client, proto, PUBLIC[family], 80, { silent: true }), undefined, `${name} is not forwarded`)
    t.same(
      held(`nat_public${family}`),
      [81, 82].map((port) => `${PUBLIC[family]} . ${port}`),
    )
    for (const id of ids.slice(1)) await remove(`${FORWARD}/${id}`)
    t.same([held(`nat_public${family}`), held(`nat_forward${family}`)], [[], []], 'nothing is left')
  }
})

t.test('what an agent that died had yet to end is ended by the next', async (t) => {
  const { client, forward, agent } = await lab(t)
  const id = await forward(PUBLIC[4], 80, SERVER[4], 8080)
  const talk = await open(client, 'tcp', PUBLIC[4], 80)
  t.ok(await talk?.say())
  // The answer comes when the deletion is durable; what follows may or may not have begun.
  await agent.call('DELETE', `${FORWARD}/${id}`)
  await agent.kill('SIGKILL')
  await agent.restart()
  t.ok(talk && (await falls(talk)))
})
