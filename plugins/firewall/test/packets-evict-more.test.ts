/** D72: which changes end connections, which connections survive them, and that an ended one stays ended. */
import t from 'tap'
import { CLIENT, lab, ROUTER, SERVER, sees, type Talk, tcp } from './lab.ts'
import { judged, requireLane } from './lane.ts'
import { entry, fates, forgotten, open, serveAll } from './talks.ts'

requireLane(t)
const here = await lab(t)
const { client, node, router, rule, put, reset, agent } = here
await serveAll(here)

judged('D72 a connection that an accept of higher rank admits survives', async (t) => {
  for (const accept of [{}, { interface: 'r1' }, { mac: CLIENT.mac }]) {
    await put('/api/v1/rules/default', { default_action: 'deny' })
    await rule({ action: 'accept', protocol: 'tcp', dest_port: 1100, priority: 10, ...accept })
    await rule({ action: 'accept', protocol: 'tcp', dest_port: 1101, priority: 30 })
    // The other end speaks and this one only acknowledges: a connection that conntrack forgot would stand still.
    const [stream, doomed] = await Promise.all([open(client, tcp(SERVER.v4, 1100)), open(client, tcp(SERVER.v4, 1101))])
    const [kept, lost] = [entry(router, 1100), entry(router, 1101)]
    await rule({ action: 'drop', protocol: 'tcp', dest_port: 1100, dest_port_max: 1101, priority: 20 })
    t.ok(await forgotten(router, lost, 1101), 'control: the one that an accept of lower rank admitted is ended')
    t.equal(entry(router, 1100), kept, `${JSON.stringify(accept)}: conntrack has not forgotten the other`)
    t.ok((await stream.hears()) && (await stream.lives()), 'it goes on')
    t.ok(await doomed.dies())
    await rule({ action: 'drop', protocol: 'tcp', dest_port: 1100, priority: 9 })
    t.ok(await forgotten(router, kept, 1100), 'control: a drop of higher rank ends it')
    await reset()
  }
})

judged('D72 a replacement, a batch and the end of a schedule end connections as a creation does', async (t) => {
  const drop = { action: 'drop', dest_port: 1100 }
  const ways: Record<string, () => Promise<unknown>> = {
    'PUT of an accept to a drop': async () =>
      put(`/api/v1/rules/${await rule({ action: 'accept', dest_port: 1100 })}`, drop),
    'PUT of a drop to another port': async () =>
      put(`/api/v1/rules/${await rule({ action: 'drop', dest_port: 1999 })}`, drop),
    batch: () => agent.call('POST', '/api/v1/rules/batch', { rules: [{ action: 'accept', dest_port: 1001 }, drop] }),
    'a schedule taken off': async () => {
      const id = await rule({ action: 'drop', dest_port: 1999 })
      await put(`/control/v1/firewall/rules/${id}/schedule`, {
        from: '2001-01-01T00:00:00Z',
        to: '2001-01-02T00:00:00Z',
      })
      const body = await put(`/api/v1/rules/${id}`, drop)
      const path = `/control/v1/firewall/rules/${(body.rule as { id: number }).id}/schedule`
      t.ok(await latest?.lives(), 'outside its window the rule ends nothing')
      await agent.call('DELETE', path)
    },
  }
  let latest: Talk | undefined
  for (const [way, work] of Object.entries(ways)) {
    const [doomed, beside] = await Promise.all([open(client, tcp(SERVER.v4, 1100)), open(client, tcp(SERVER.v4, 1001))])
    latest = doomed
    const id = entry(router, 1100)
    await work()
    t.ok((await forgotten(router, id, 1100)) && (await doomed.deaf()), `${way} ends it`)
    await fates(t, 'that one, not the other', { ended: [doomed], alive: [beside] })
    await reset()
  }
})

judged('D72 D70 a drop that comes into force by its schedule ends the connections', async (t) => {
  const [doomed, beside] = await Promise.all([open(client, tcp(SERVER.v4, 1100)), open(client, tcp(SERVER.v4, 1101))])
  const known = entry(router, 1100)
  const id = await rule({ action: 'drop', dest_port: 1999 })
  const time = (ms: number) => new Date(Date.now() + ms).toISOString()
  await put(`/control/v1/firewall/rules/${id}/schedule`, { from: time(2000), to: time(600_000) })
  await put(`/api/v1/rules/${id}`, { action: 'drop', dest_port: 1100 })
  t.ok((await doomed.hears()) && (await beside.hears()), 'before it opens nothing ends')
  await sees(t, client, { pass: [tcp(SERVER.v4, 1100)] }, 'nor does the kernel drop anything')
  t.ok((await forgotten(router, known, 1100)) && (await doomed.deaf()), 'then it is ended')
  await sees(t, client, { drop: [tcp(SERVER.v4, 1100)], pass: [tcp(SERVER.v4, 1101)] }, 'the kernel keeps the window')
  t.ok(await beside.hears(), 'another port goes on')
  await reset()
})

judged('D72 a forwarded connection is ended by its address before translation', async (t) => {
  router.run('nft', 'add', 'table', 'ip', 'teststand')
  router.run('nft', 'add chain ip teststand pre { type nat hook prerouting priority dstnat; }')
  router.run('nft', `add rule ip teststand pre ip daddr ${ROUTER.v4} tcp dport 7777 dnat to ${SERVER.v4}:1000`)
  const [forwarded, direct] = await Promise.all([
    open(client, tcp(ROUTER.v4, 7777)),
    open(client, tcp(SERVER.v4, 1000)),
  ])
  await rule({ action: 'drop', dest_ip: SERVER.v4, dest_port: 1000 })
  await fates(t, 'a drop on the target ends the direct one only', { ended: [direct], alive: [forwarded] })
  const id = entry(router, 7777)
  await rule({ action: 'drop', dest_ip: ROUTER.v4, dest_port: 7777 })
  await fates(t, 'a drop on the public address ends it', { ended: [forwarded], alive: [] })
  t.ok(await forgotten(router, id, 7777), 'and conntrack forgets it')
  await reset()
  router.run('nft', 'delete', 'table', 'ip', 'teststand')
})

judged('D72 what the node asks itself is not ended by a drop of what arrives', async (t) => {
  const [outward, inward] = await Promise.all([open(node, tcp(SERVER.v4, 1000)), open(client, tcp(SERVER.v4, 1000))])
  await rule({ action: 'drop', dest_port: 1000 })
  await fates(t, 'the one of the node lives', { ended: [inward], alive: [outward] })
  await reset()
})
