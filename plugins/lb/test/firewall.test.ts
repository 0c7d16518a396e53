/** What a new drop of the firewall means for connections that stand, through a VIP as through the node (D72). */
import t from 'tap'
import { machine } from '../../../dataplane/bpf/lb/test/machine.ts'
import { requireRoot } from '../../../test/netns.ts'
import { segment, until } from '../../../test/segment.ts'
import { LB } from './area.ts'

requireRoot(t)

const FAMILIES = [
  ['10.9.0.20', '10.9.0.254'],
  ['fd09::20', 'fd09::254'],
] as const

t.test('lb-06 D72 a new drop ends the connections of a VIP that it forbids', async (t) => {
  const { agent, neighbour, answers } = await segment(t)
  const certain = async (...what: Parameters<typeof agent.call>) => {
    const answer = await agent.call(...what)
    if (answer.status >= 300) throw new Error(`${what[0]} ${what[1]}: ${answer.text}`)
    return answer.body
  }
  const there = machine(neighbour)
  for (const port of [80, 81]) {
    await there.tell('listen', { protocol: 'tcp', port: 8000 + port, name: 'b1' })
    for (const [ip, server] of FAMILIES) {
      const id = `web${port}-${ip.includes(':') ? 6 : 4}`
      await certain('POST', LB, { id, frontend_ip: ip, frontend_port: port, algorithm: 'maglev' })
      await certain('POST', `${LB}/${id}/backends`, { id: 'b1', ip: server, port: 8000 + port })
      t.ok(answers(ip))
    }
  }
  const active = async () => {
    const vips = await Promise.all(['web80-4', 'web80-6'].map((id) => certain('GET', `${LB}/${id}`)))
    return vips.map((vip) => (vip.load_balancer as { backends: { active_conns: number }[] }).backends[0]?.active_conns)
  }
  const open = (port: number) =>
    Promise.all(FAMILIES.map(([address]) => there.tell('open', { address, port }).then(({ handle }) => handle)))
  const say = (handles: number[], text: string) =>
    Promise.all(handles.map((handle) => there.tell('say', { handle, text })))
  const [talking, silent, beside] = [await open(80), await open(80), await open(81)]
  t.same(await say(talking, 'admitted'), ['same', 'same'])
  t.same(await active(), [2, 2])
  const ids: number[] = []
  for (const [dest_ip] of FAMILIES) {
    const fields = { action: 'drop', protocol: 'tcp', dest_ip, dest_port: 80 }
    const { rule } = await certain('POST', '/api/v1/rules', fields)
    ids.push((rule as { id: number }).id)
  }
  t.same(await say(talking, 'from its first moment'), ['timeout', 'timeout'])
  await until('the connections are ended', async () => (await active()).join() === '0,0')
  t.same(await say(silent, 'has said nothing meanwhile'), ['timeout', 'timeout'])
  t.same(await say(beside, 'another port'), ['same', 'same'])
  for (const id of ids) await certain('DELETE', `/api/v1/rules/${id}`)
  // Nobody was told: what is allowed again goes on, with what it could not say before.
  await until('they go on', async () => !(await say(silent, 'again')).includes('timeout'))
  t.ok(
    (await active()).every((count) => (count ?? 0) > 0),
    'and count',
  )
})
