/** Port forwards to machines in a private network of the node. */
import t from 'tap'
import { netns, requireRoot, veth } from '../../../test/netns.ts'
import { workloadNode } from '../../../test/workload.ts'
import { FORWARD } from './area.ts'
import { ask, serve } from './host.ts'

requireRoot(t)

t.test(
  'fwd-08 D61 a machine of a private network is reached from outside, from its network and from the node',
  async (t) => {
    const node = await workloadNode(t, { config: { uplink: 'wan0' } })
    // As on a node without br_netfilter; with it the frame back to its own port is bridged instead of routed.
    node.ns.run('sysctl', '-qew', 'net.bridge.bridge-nf-call-iptables=0')
    const client = netns(t, 'client')
    veth(t, { ns: node.ns, name: 'wan0', addr: '192.168.7.1/24' }, { ns: client, name: 'eth0', addr: '192.168.7.2/24' })
    const { network } = await node.ok('POST', '/api/v1/networks', {
      ...{ name: 'lab', cidr: '10.0.0.0/24', gateway: '10.0.0.1', host_gateway: true },
    })
    const { id } = network as { id: string }
    const guests = ['a', 'b'].map((name) => node.guest(name, { mac: `02:00:00:00:00:0${name}` }))
    for (const [at, guest] of guests.entries()) {
      const ip = `10.0.0.${2 + at}`
      const wanted = {
        machine: guest.port,
        network: id,
        ip,
        port: guest.port,
        mac: `02:00:00:00:00:0${at ? 'b' : 'a'}`,
      }
      await node.ok('POST', '/control/v1/compute/machines', wanted)
      guest.ns.run('ip', 'address', 'add', `${ip}/24`, 'dev', 'eth0')
      guest.ns.run('ip', 'route', 'add', 'default', 'via', '10.0.0.1')
    }
    await node.inNetwork(...guests)
    const [a, b] = guests
    if (a === undefined || b === undefined) throw new TypeError('two guests were made')
    await serve(a.ns, 'a', 8080)
    const { port_forward } = await node.ok('POST', FORWARD, {
      ...{ dest_ip: '192.168.7.1', dest_port: 80, target_ip: '10.0.0.2', target_port: 8080 },
    })
    t.equal(node.ns.run('cat', '/proc/sys/net/ipv4/conf/wan0/forwarding').trim(), '1')
    for (const proto of ['tcp', 'udp'] as const) {
      const from = (ns: typeof client) => ask(ns, proto, '192.168.7.1', 80)
      t.equal(await from(client), '192.168.7.2 a', `${proto} from outside`)
      t.equal(await from(b.ns), '10.0.0.1 a', `${proto} from its network`)
      t.equal(await from(a.ns), '10.0.0.1 a', `${proto} from itself`)
      t.equal(await from(node.ns), '10.0.0.1 a', `${proto} from the node`)
    }
    await node.ok('DELETE', `${FORWARD}/${(port_forward as { id: number }).id}`)
    t.equal(await ask(client, 'tcp', '192.168.7.1', 80, { silent: true }), undefined)
  },
)
