/** Commands of the load balancer: the calls of REST, one by one. */
import { columns, type Pane, path, type Verb, type VerbArgument } from '../../core/cli/verb.ts'
import type { Backend, LoadBalancer } from './schemas.ts'

const VIP: VerbArgument = { name: 'vip', summary: 'id of the VIP' }
const BACKEND: VerbArgument = { name: 'backend', summary: 'id of the backend' }

/** An IPv6 address in brackets, so that its port can be told from it (RFC 3986 §3.2.2). */
const withPort = (ip: string, port: number) => `${ip.includes(':') ? `[${ip}]` : ip}:${port === 0 ? '*' : port}`
const frontend = ({ frontend_ip, frontend_port, protocol }: LoadBalancer) =>
  `${withPort(frontend_ip, frontend_port)}/${protocol}`
const health = ({ healthy }: Pick<Backend, 'healthy'>) => (healthy ? 'healthy' : 'unhealthy')

function checkOf({ health_check: it }: LoadBalancer): string {
  if (it.type === '') return 'none'
  const what = it.type === 'http' ? `http ${it.http_path}` : it.type
  return `${what} every ${it.interval_sec} s, at most ${it.timeout_sec} s, ${it.threshold} in a row`
}

function shown(vip: LoadBalancer): string {
  const head = columns([
    ['id', vip.id],
    ['frontend', frontend(vip)],
    ['algorithm', vip.algorithm],
    ['dsr', vip.dsr_enabled ? 'on' : 'off'],
    ['check', checkOf(vip)],
  ])
  if (vip.backends.length === 0) return `${head}\nno backends`
  const rows = vip.backends.map((it) => [it.id, withPort(it.ip, it.port), it.weight, health(it), it.active_conns])
  return `${head}\n\n${columns([['BACKEND', 'ADDRESS', 'WEIGHT', 'HEALTH', 'CONNECTIONS'], ...rows])}`
}

export const verbs: readonly Verb[] = [
  {
    path: 'lb list',
    summary: 'list the VIPs of the load balancer',
    example: 'lb list',
    async run({ call, print }) {
      const answer = await call<{ load_balancers: LoadBalancer[] }>('GET', '/api/v1/lb')
      const rows = answer.load_balancers.map((vip) => {
        const healthy = vip.backends.filter((it) => it.healthy).length
        return [vip.id, frontend(vip), vip.algorithm, `${healthy} of ${vip.backends.length}`]
      })
      print(answer, rows.length === 0 ? 'no VIPs' : columns([['ID', 'FRONTEND', 'ALGORITHM', 'HEALTHY'], ...rows]))
    },
  },
  {
    path: 'lb show',
    summary: 'show one VIP and its backends',
    example: 'lb show web',
    arguments: [VIP],
    async run({ call, argument, print }) {
      const answer = await call<{ load_balancer: LoadBalancer }>('GET', path`/api/v1/lb/${argument('vip')}`)
      print(answer, shown(answer.load_balancer))
    },
  },
  {
    path: 'lb add',
    summary: 'make a VIP; its address is up when the command ends',
    example: 'lb add web 192.0.2.10 maglev --port 80 --check http --path /healthz',
    arguments: [
      VIP,
      { name: 'ip', summary: 'address that clients come to' },
      { name: 'algorithm', summary: 'round-robin, least-conn, source-hash, weighted, maglev or consistent-hash' },
    ],
    options: [
      { flags: '--port <port>', summary: 'port that clients come to; default every port', integer: true },
      { flags: '--protocol <name>', summary: 'tcp (default) or udp' },
      { flags: '--dsr', summary: 'backends have the address too and answer clients directly' },
      { flags: '--check <type>', summary: 'tcp or http; default no check' },
      { flags: '--interval <duration>', summary: 'between two checks; default 5s', duration: true },
      { flags: '--timeout <duration>', summary: 'for a check; default 2s', duration: true },
      { flags: '--threshold <count>', summary: 'results in a row that decide; default 3', integer: true },
      { flags: '--path <path>', summary: 'what an http check asks for; default /' },
    ],
    async run({ call, argument, options, print }) {
      const { port, protocol, dsr, check, interval, timeout, threshold, path: asked } = options
      const health_check = {
        ...(check !== undefined && { type: check }),
        ...(interval !== undefined && { interval_sec: interval }),
        ...(timeout !== undefined && { timeout_sec: timeout }),
        ...(threshold !== undefined && { threshold }),
        ...(asked !== undefined && { http_path: asked }),
      }
      const answer = await call<{ load_balancer: LoadBalancer }>('POST', '/api/v1/lb', {
        id: argument('vip'),
        frontend_ip: argument('ip'),
        algorithm: argument('algorithm'),
        ...(port !== undefined && { frontend_port: port }),
        ...(protocol !== undefined && { protocol }),
        ...(dsr !== undefined && { dsr_enabled: dsr }),
        ...(Object.keys(health_check).length > 0 && { health_check }),
      })
      print(answer, `VIP ${answer.load_balancer.id}: ${frontend(answer.load_balancer)}`)
    },
  },
  {
    path: 'lb delete',
    summary: 'remove a VIP and its backends, and end its connections',
    example: 'lb delete web',
    arguments: [VIP],
    async run({ call, argument, print }) {
      const answer = await call<{ id: string }>('DELETE', path`/api/v1/lb/${argument('vip')}`)
      print(answer, `VIP ${answer.id} deleted`)
    },
  },
  {
    path: 'lb backend add',
    summary: 'add a backend to a VIP',
    example: 'lb backend add web web1 10.0.0.5 --port 8080 --weight 2',
    arguments: [VIP, BACKEND, { name: 'ip', summary: 'its address' }],
    options: [
      { flags: '--port <port>', summary: 'its port; default that of the VIP', integer: true },
      { flags: '--weight <number>', summary: 'its share; default 1, 0 for no new connections', integer: true },
    ],
    async run({ call, argument, options, print }) {
      const body = { id: argument('backend'), ip: argument('ip'), ...options }
      const answer = await call<Named>('POST', path`/api/v1/lb/${argument('vip')}/backends`, body)
      print(answer, `backend ${answer.backend_id} added to VIP ${answer.vip_id}`)
    },
  },
  {
    path: 'lb backend delete',
    summary: 'remove a backend; the connections that it has may end in their own time',
    example: 'lb backend delete web web1',
    arguments: [VIP, BACKEND],
    async run({ call, argument, print }) {
      const place = path`/api/v1/lb/${argument('vip')}/backends/${argument('backend')}`
      const answer = await call<Named>('DELETE', place)
      print(answer, `backend ${answer.backend_id} removed from VIP ${answer.vip_id}`)
    },
  },
  {
    path: 'lb backend health',
    summary: 'say whether a backend is healthy, until the next result of its check',
    example: 'lb backend health web web1 unhealthy',
    arguments: [VIP, BACKEND, { name: 'health', summary: 'healthy or unhealthy', choices: ['healthy', 'unhealthy'] }],
    async run({ call, argument, print }) {
      const place = path`/api/v1/lb/${argument('vip')}/backends/${argument('backend')}/health`
      const answer = await call<Named & { healthy: boolean }>('POST', place, {
        healthy: argument('health') === 'healthy',
      })
      print(answer, `backend ${answer.backend_id} of VIP ${answer.vip_id} is ${health(answer)}`)
    },
  },
]

interface Named {
  vip_id: string
  backend_id: string
}

export const panes: readonly Pane[] = [
  {
    title: 'VIPs',
    order: 40,
    async read({ call }) {
      const { load_balancers: vips } = await call<{ load_balancers: LoadBalancer[] }>('GET', '/api/v1/lb')
      const served = ({ backends }: LoadBalancer) => backends.reduce((sum, it) => sum + it.active_conns, 0)
      const ailing = ({ backends }: LoadBalancer) => backends.filter((it) => !it.healthy).length
      const sorted = [...vips].sort((a, b) => ailing(b) - ailing(a) || served(b) - served(a))
      return {
        head: ['VIP', 'FRONTEND', 'ALGORITHM', 'HEALTHY', 'CONNECTIONS'],
        rows: sorted.map((vip) => [
          vip.id,
          frontend(vip),
          vip.algorithm,
          `${vip.backends.length - ailing(vip)} of ${vip.backends.length}`,
          served(vip),
        ]),
        note: String(vips.length),
      }
    },
  },
]
