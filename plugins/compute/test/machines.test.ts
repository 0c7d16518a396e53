/** The machine registry: over the control socket, and by the commands that tools rely on. */
import t from 'tap'
import { ctlFor } from '../../../core/cli/test/control.ts'
import { KernelRefusal } from '../../../dataplane/plane.ts'
import { verbs } from '../verbs.ts'
import { M, machines, NOW, P } from './rig.ts'

t.test('routed-18 conv-14 D108 a machine takes what it asks for, in one step', async (t) => {
  const { agent, attach, call, control, ground, list } = await machines(t)
  const id = await ground()
  t.same(await list(), [])
  const { latest } = agent.outbox.bounds()
  const { status, headers, body } = await attach({ machine: 'web1', network: 'lab', public_ip: 'auto', port: 'tap7' })
  const nic = {
    ...{ network_id: id, endpoint_id: 'ep-00010a000002', ip: '10.0.0.2', mac: '02:ce:0a:00:00:02' },
    ...{ public_ip: '8.8.4.0', port: 'tap7' },
  }
  const machine = { name: 'web1', created_at: NOW, networks: [nic] }
  const { task, ...rest } = body as { task: string }
  t.same([status, rest], [200, { status: 'attached', machine, nic }])
  t.equal(headers.location, `${P}/tasks/${task}`)
  t.match((await call('GET', `${P}/tasks/${task}`)).body, {
    task: {
      id: /^task-[0-9a-f]{12}$/,
      kind: 'machine.attach',
      state: 'succeeded',
      resource: `${M}/web1`,
      progress: 100,
    },
  })
  const told = agent.outbox.after(latest, 10).map(({ type, area, actor }) => [type, area, actor.kind])
  t.same(told, [
    ['endpoint.attached', 'networks', 'cli'],
    ['allocation.created', 'ipam', 'cli'],
    ['task.created', 'compute', 'cli'],
  ])
  const { addresses } = (await call('GET', `${P}/routed-addresses`)).body as { addresses: object[] }
  t.match(addresses[0], { ip: '8.8.4.0', used_by: 'web1', mac: '02:ce:0a:00:00:02' })
  const alone = await attach({ machine: 'web1', public_ip: '8.8.4.3' })
  t.match(alone.body, { nic: { mac: '02:ce:08:08:04:03', public_ip: '8.8.4.3' }, machine: { networks: [nic, {}] } })
  await attach({ machine: 'db-1.lab', network: id, ip: '10.0.0.77', mac: '02:00:00:00:00:77' })
  t.same(
    (await list()).map(({ name, networks }) => [name, networks.length]),
    [
      ['db-1.lab', 1],
      ['web1', 2],
    ],
  )
  const detached = await control('DELETE', `${M}/web1`)
  t.match(
    [detached.status, detached.body, detached.headers],
    [
      200,
      { status: 'detached', machine: { name: 'web1', networks: [nic, {}] }, task: /^task-/ },
      { location: `${P}/tasks/${detached.body.task}` },
    ],
  )
  t.match(
    (await call('GET', `${P}/tasks`)).body.tasks,
    ['detach', 'attach', 'attach', 'attach'].map((verb) => ({ kind: `machine.${verb}` })),
  )
  t.same(
    (await list()).map(({ name }) => name),
    ['db-1.lab'],
  )
  const left = (await call('GET', `${P}/routed-addresses`)).body as { ranges: object[]; addresses: { mac: string }[] }
  t.match(left.ranges, [{ used: 0, free: 4 }])
  t.ok(left.addresses.every(({ mac }) => mac === ''))
  t.match((await call('GET', `${P}/ipam/allocations`)).body.allocations, [{ ip: '10.0.0.77' }])
})

t.test('D108 attaching again: another NIC, or the one that is as asked for', async (t) => {
  const { agent, attach, ground, list } = await machines(t)
  await ground()
  const first = {
    machine: 'vm',
    network: 'lab',
    ip: '10.0.0.9',
    mac: '02:00:00:00:00:AB',
    public_ip: 'auto',
    port: 'tap1',
  }
  const answer = await attach(first)
  const { latest } = agent.outbox.bounds()
  const same = [
    first,
    { machine: 'vm', network: 'lab', public_ip: 'auto' },
    { machine: 'vm', network: 'lab', public_ip: '8.8.4.0', mac: '02-00-00-00-00-ab' },
    { machine: 'vm', network: 'lab', public_ip: 'auto', ip: '', mac: '' },
  ]
  const { task: _, ...unchanged } = answer.body
  for (const body of same) {
    const { task, ...rest } = (await attach(body)).body
    t.same(rest, unchanged, JSON.stringify(body))
  }
  const told = agent.outbox.after(latest, 100).map(({ type }) => type)
  t.same(
    told,
    same.map(() => 'task.created'),
    'nothing happened but that it was asked for',
  )
  const others = [
    { machine: 'vm', network: 'lab' },
    { machine: 'vm', public_ip: 'auto' },
    { machine: 'vm', network: 'lab', ip: '10.0.0.10' },
    { machine: 'vm', network: 'lab', mac: '02:00:00:00:00:01' },
    { machine: 'vm2', network: 'lab' },
  ]
  for (const body of others) t.equal((await attach(body)).status, 200, JSON.stringify(body))
  t.equal((await attach({ machine: 'vm', network: 'lab' })).status, 200, 'as asked for')
  t.same(
    (await list()).map(({ networks }) => networks.length),
    [5, 1],
  )
})

t.test('D108 what is refused leaves nothing, not even the machine', async (t) => {
  const { attach, control, ground, list, plane, unchanged } = await machines(t)
  await ground()
  await attach({ machine: 'vm', network: 'lab', ip: '10.0.0.9', public_ip: '8.8.4.0', port: 'tap1' })
  const table: [object, number, RegExp][] = [
    [{ network: 'lab' }, 400, /^machine is required/],
    [{ machine: '', network: 'lab' }, 400, /^machine: /],
    [{ machine: 'a b', network: 'lab' }, 400, /^machine: /],
    [{ machine: 'x'.repeat(64), network: 'lab' }, 400, /^machine: /],
    [{ machine: 'new' }, 400, /^network or public_ip is required/],
    [{ machine: 'vm' }, 400, /^network or public_ip is required/],
    [{ machine: 'new', network: 'x' }, 404, /^network x not found/],
    [{ machine: 'vm', network: 'x' }, 404, /^network x not found/],
    [{ machine: 'new', network: 'lab', ip: '10.0.0.9' }, 409, /is used by machine vm/],
    [{ machine: 'new', network: 'lab', public_ip: '8.8.4.0' }, 409, /is used by machine vm/],
    [{ machine: 'new', network: 'lab', public_ip: '8.8.5.0' }, 404, /not found/],
    [{ machine: 'new', public_ip: 'auto', port: 'tap1' }, 409, /declared by machine vm/],
    [{ machine: 'new', network: 'lab', port: 'a/b' }, 400, /^port: /],
    [{ machine: 'new', network: 'lab', colour: 'red' }, 400, /^unrecognised key: colour/],
  ]
  for (const [body, status, error] of table) {
    const answer = await unchanged(() => attach(body))
    t.equal(answer.status, status, JSON.stringify(body))
    t.match(answer.body.error, error)
  }
  for (const name of ['new', 'vm2', '%20']) {
    t.equal((await unchanged(() => control('DELETE', `${M}/${name}`))).status, 404, name)
  }
  for (const work of [() => attach({ machine: 'new', network: 'lab' }), () => control('DELETE', `${M}/vm`)]) {
    const answer = await unchanged(() => {
      plane.refuse = new KernelRefusal('No buffer space available')
      return work()
    })
    t.equal(answer.status, 409)
  }
  t.equal((await list()).length, 1)
})

t.test('D34 the last max_tasks operations are kept as tasks', async (t) => {
  const { agent, attach, call, ground } = await machines(t, { config: { max_tasks: '2' } })
  await ground()
  for (const machine of ['a', 'b', 'c']) await attach({ machine, network: 'lab' })
  t.match((await call('GET', `${P}/tasks`)).body.tasks, [{ resource: `${M}/c` }, { resource: `${M}/b` }])
  for (const bad of ['0', '10001', 'x']) t.ok(agent.config.problem('max_tasks', bad), bad)
})

t.test('an endpoint that was detached over REST is no longer the machine’s', async (t) => {
  const { attach, call, control, ground, list } = await machines(t)
  const id = await ground()
  const { nic } = (await attach({ machine: 'vm', network: 'lab', public_ip: 'auto' })).body as {
    nic: Record<string, string>
  }
  await call('POST', `${P}/networks/${id}/endpoints/${nic.endpoint_id}/detach`)
  t.match(await list(), [{ name: 'vm', networks: [{ mac: nic.mac, public_ip: '8.8.4.0' }] }])
  await attach({ machine: 'vm2', network: 'lab', ip: nic.ip ?? '' })
  t.equal((await control('DELETE', `${M}/vm`)).status, 200)
  t.match(await list(), [{ name: 'vm2', networks: [{ ip: nic.ip }] }], 'what another machine has meanwhile stays')
})

t.test('a frozen licence refuses changes and no reading; REST does not offer any of it', async (t) => {
  const { attach, call, control, list } = await machines(t, { licensed: false })
  t.same(await list(), [])
  t.equal((await attach({ machine: 'vm', network: 'lab' })).status, 403)
  t.equal((await control('DELETE', `${M}/vm`)).status, 403)
  for (const [method, path] of [
    ['GET', M],
    ['POST', M],
    ['GET', `${P}/compute/machines`],
  ] as const) {
    t.equal((await call(method, path)).status, 404, `${method} ${path}`)
  }
})

t.test('machine attach, detach and list', async (t) => {
  const { ground, socket } = await machines(t)
  const id = await ground()
  const ctl = ctlFor(verbs, socket)
  const json = async (line: string) => JSON.parse((await ctl(`${line} --json`)).out)
  t.match(await ctl('machine list'), { code: 0, out: 'no machines\n' })
  t.match(
    await ctl('machine attach web1 --network lab --ip 10.0.0.9 --mac 02:00:00:00:00:09 --public-ip auto --port tap7'),
    {
      code: 0,
      out: 'machine web1: 10.0.0.9 and 8.8.4.0 by 02:00:00:00:00:09 on tap7\n',
    },
  )
  t.match(await json('machine attach web1 --public-ip 8.8.4.2'), {
    status: 'attached',
    machine: { name: 'web1', networks: [{ network_id: id, port: 'tap7' }, { public_ip: '8.8.4.2' }] },
    nic: { public_ip: '8.8.4.2', mac: '02:ce:08:08:04:02' },
  })
  t.match(await ctl('machine list'), {
    out: /^MACHINE .*\nweb1 +net-\w+ +10\.0\.0\.9 +02:00:00:00:00:09 +8\.8\.4\.0 +tap7\nweb1 +- +- +02:ce:08:08:04:02 +8\.8\.4\.2 +-\n$/,
  })
  t.match(await json('machine list'), { machines: [{ name: 'web1', networks: [{ ip: '10.0.0.9' }, {}] }] })
  t.match(await ctl('machine attach web2'), { code: 1, err: /network or public_ip is required/ })
  t.match(await ctl('machine attach web2 --network lab --port a/b'), { code: 1, err: /port: / })
  t.match(await ctl('machine detach web1'), { code: 0, out: 'machine web1 detached\n' })
  t.match(await ctl('machine detach web1'), { code: 1, err: /machine web1 not found/ })
  t.match(await ctl('machine attach'), { code: 2 })
})

t.test(
  'D103 a machine goes with the tenant that all its NICs belong to; others keep what else they have',
  async (t) => {
    const { attach, call, control } = await machines(t, {
      only: ['node', 'ipam', 'l2', 'networks', 'compute', 'tenants'],
    })
    const { tenant } = (await call('POST', `${P}/tenant`, { name: 'acme' })).body as { tenant: { id: string } }
    for (const [name, tenant_id] of [
      ['theirs', tenant.id],
      ['own', ''],
    ])
      await call('POST', `${P}/networks`, { name, cidr: '10.0.0.0/24', tenant_id })
    for (const [machine, network] of [
      ['web', 'theirs'],
      ['both', 'theirs'],
      ['both', 'own'],
      ['db', 'own'],
    ])
      t.equal((await attach({ machine, network })).status, 200)
    t.equal((await call('DELETE', `${P}/tenant/${tenant.id}`)).status, 200)
    const left = (await control('GET', M)).body.machines as { name: string; networks: unknown[] }[]
    t.same(
      left.map(({ name, networks }) => [name, networks.length]),
      [
        ['both', 1],
        ['db', 1],
      ],
    )
  },
)

t.test('the device of a NIC is another one, or none', async (t) => {
  const { attach, control, ground, list, plane } = await machines(t)
  await ground()
  await attach({ machine: 'vm', network: 'lab', ip: '10.0.0.9', port: 'tap1' })
  await attach({ machine: 'pub', public_ip: '8.8.4.1', port: 'tap2' })
  const put = (machine: string, body: object) => control('PUT', `${M}/${machine}/port`, body)
  t.match(await put('vm', { port: 'tap3' }), { status: 200, body: { status: 'updated', nic: { port: 'tap3' } } })
  t.match(plane.entries.get('networks/binding/1/10.0.0.9'), { port: 'tap3' })
  t.match(await put('pub', { port: 'tap3' }), { status: 409, body: { error: /declared by machine vm/ } })
  t.match(await put('pub', { port: 'tap4' }), { status: 200, body: { nic: { port: 'tap4' } } })
  t.match(await put('pub', { port: 'tap4' }), { status: 200 }, 'as it is')
  t.match(await put('vm', { port: 'tap4' }), { status: 409, body: { error: /declared by machine pub/ } })
  t.match(await put('pub', { port: '' }), { status: 200, body: { nic: { port: undefined } } })
  const { body } = await attach({ machine: 'vm', network: 'lab', ip: '10.0.0.10' })
  t.match(await put('vm', { port: 'tap5' }), { status: 400, body: { error: /has several NICs/ } })
  t.match(await put('vm', { port: 'tap5', mac: (body.nic as { mac: string }).mac }), {
    status: 200,
    body: { nic: { ip: '10.0.0.10' } },
  })
  t.match(await put('vm', { port: 'tap5', mac: '02:00:00:00:00:01' }), { status: 404 })
  t.match(await put('none', { port: 'tap5' }), { status: 404 })
  t.match(await put('vm', { port: 'a b' }), { status: 400 })
  const ports = (await list()).map(({ name, networks }) => [name, ...networks.map(({ port }) => port)])
  t.same(ports, [
    ['pub', undefined],
    ['vm', 'tap3', 'tap5'],
  ])
})
