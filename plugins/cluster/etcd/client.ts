/**
 * A client of the node's own etcd. Every call has a deadline and none is repeated: a call that fails may have been carried
 * out all the same, and whoever repeats a transaction blindly is answered that its own first one was in the way.
 */
import { join } from 'node:path'
import type { ChannelCredentials, ClientDuplexStream, ClientUnaryCall, Metadata, ServiceError } from '@grpc/grpc-js'
import type { Tls } from '../files.ts'
import { inParts } from './coding.ts'
import { EtcdError, follow, type WatchListener } from './watch.ts'
import { type Compare, type KeyValue, type Member, type Op, prefixEnd, type Status } from './words.ts'

export interface EtcdTarget extends Tls {
  /** Where it listens on 127.0.0.1. */
  port: number
  /** Node id, which its certificate is for. */
  node: string
}

export { EtcdError, type WatchEvent, type WatchListener } from './watch.ts'

/** INVALID_ARGUMENT, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, OUT_OF_RANGE: etcd looked at the request and refused it. */
const REFUSALS = new Set([3, 8, 9, 11])
/** False: etcd refused. True: it may have been carried out, or may yet be. */
export const isUncertain = (error: unknown): boolean => !(error instanceof EtcdError) || !REFUSALS.has(error.code)

export interface RangeOptions {
  /** Of this revision; otherwise of the latest. */
  revision?: number
  limit?: number
  /** As this member has it, which it also tells when cut off; otherwise as the majority has it. */
  local?: boolean
  ms?: number
}
export interface Range {
  kvs: KeyValue[]
  more: boolean
  /** Of the store when it was read. */
  revision: number
}

export interface Etcd {
  get(key: string, options?: RangeOptions): Promise<KeyValue | undefined>
  /** Keys from `from` (default: the first) that begin with `prefix`, in their order. */
  range(prefix: string, options?: RangeOptions & { from?: string }): Promise<Range>
  txn(compares: readonly Compare[], ops: readonly Op[], ms?: number): Promise<{ succeeded: boolean; revision: number }>
  /** All of `prefix` from revision `from` on. Ends by itself when this member has no leader. Returns how to stop it. */
  watch(prefix: string, from: number, listener: WatchListener): () => void
  status(ms?: number): Promise<Status>
  members(): Promise<Member[]>
  addLearner(peerUrl: string): Promise<{ member: Member; members: Member[] }>
  removeMember(id: string): Promise<void>
  promote(id: string): Promise<void>
  /** Only the leader's own etcd does that. */
  moveLeader(id: string): Promise<void>
  grant(ttlSeconds: number): Promise<string>
  revoke(lease: string): Promise<void>
  /** `beat` asks for one more TTL; `lost` is told when there is no such lease any more, or no way to ask. */
  keepAlive(lease: string, lost: () => void): { beat(): void; stop(): void }
  compact(revision: number): Promise<void>
  defragment(): Promise<void>
  alarms(): Promise<{ memberID: string; alarm: string }[]>
  disarm(alarm: { memberID: string; alarm: string }): Promise<void>
  /** Ends the calls that wait for a majority: their outcome is unknown. */
  cancelWaiting(): void
  /** Calls from now on go by another certificate; streams end. */
  renew(tls: Tls): void
  close(): void
}

/** A healthy cluster answers in milliseconds; a new leader takes one to two seconds. */
const CALL_MS = 2000
/** A change of the membership waits for the disks of a majority. */
const MEMBERSHIP_MS = 5000
const DEFRAGMENT_MS = 60_000
const MAX_MESSAGE = 64 << 20
const LEADER_CHANGED = /leader changed/

type Service = 'KV' | 'Watch' | 'Lease' | 'Cluster' | 'Maintenance'
type Callback = (error: ServiceError | null, answer: unknown) => void
type Unary = (request: object, metadata: Metadata, options: object, done: Callback) => ClientUnaryCall
type Streaming = (metadata: Metadata) => ClientDuplexStream<object, never>
type Stub = Record<string, unknown> & { close(): void; getChannel(): unknown }
type StubClass = new (target: string, credentials: ChannelCredentials, options: object) => Stub
interface RawKeyValue {
  key: Buffer
  value: Buffer
  create_revision: string
  mod_revision: string
}
interface Headed {
  header: { revision: string }
}

const keyValue = (raw: RawKeyValue): KeyValue => ({
  key: raw.key.toString(),
  value: raw.value.toString(),
  createRevision: Number(raw.create_revision),
  modRevision: Number(raw.mod_revision),
})

/** Does not wait for a connection: the first call does. */
export async function openEtcd({ port, node, ...tls }: EtcdTarget): Promise<Etcd> {
  // Loaded only by a node in a cluster: the library costs several MB.
  const [grpc, { load }] = await Promise.all([import('@grpc/grpc-js'), import('@grpc/proto-loader')])
  const definition = await load(join(import.meta.dirname, 'etcd.proto'), {
    keepCase: true,
    longs: String,
    enums: String,
    defaults: true,
    oneofs: true,
  })
  const codes = inParts(definition)
  const loaded = grpc.loadPackageDefinition(definition) as unknown as { etcdserverpb: Record<Service, StubClass> }
  const options = {
    'grpc.ssl_target_name_override': node,
    'grpc.default_authority': node,
    'grpc.enable_retries': 0,
    'grpc.enable_http_proxy': 0,
    'grpc.enable_channelz': 0,
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.min_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 1000,
    'grpc.keepalive_time_ms': 10_000,
    'grpc.keepalive_timeout_ms': 3000,
    'grpc.keepalive_permit_without_calls': 1,
    'grpc.max_receive_message_length': MAX_MESSAGE,
    'grpc.max_send_message_length': MAX_MESSAGE,
  }
  const target = `127.0.0.1:${port}`
  function connect({ ca, certificate, key }: Tls): Record<Service, Stub> {
    const credentials = grpc.credentials.createSsl(Buffer.from(ca), Buffer.from(key), Buffer.from(certificate))
    const first = new loaded.etcdserverpb.KV(target, credentials, options)
    const shared = { ...options, channelOverride: first.getChannel() }
    const stub = (name: Service) => new loaded.etcdserverpb[name](target, credentials, shared)
    return {
      KV: first,
      Watch: stub('Watch'),
      Lease: stub('Lease'),
      Cluster: stub('Cluster'),
      Maintenance: stub('Maintenance'),
    }
  }
  const disconnect = () => {
    for (const each of Object.values(stubs)) each.close()
  }
  let stubs = connect(tls)
  const waiting = new Set<ClientUnaryCall>()

  function call<Answer>(
    service: Service,
    method: string,
    request: object,
    ms = CALL_MS,
    local = false,
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const unary = (stubs[service][method] as Unary).bind(stubs[service])
      const running = unary(request, new grpc.Metadata(), { deadline: Date.now() + ms }, (error, answer) => {
        waiting.delete(running)
        if (error) reject(new EtcdError(error.code, error.details))
        else resolve(answer as Answer)
      })
      if (!local) waiting.add(running)
    })
  }
  const stream = (service: Service, method: string, metadata = new grpc.Metadata()) =>
    (stubs[service][method] as Streaming).call(stubs[service], metadata)

  async function range(key: Buffer, end: Buffer | undefined, { revision, limit, local = false, ms }: RangeOptions) {
    const request = { key, range_end: end, revision, limit, serializable: local }
    const until = performance.now() + (ms ?? CALL_MS)
    const ask = () => call<Headed & { kvs: RawKeyValue[]; more: boolean }>('KV', 'Range', request, ms, local)
    // It has read nothing, and the new leader may be asked at once (ErrLeaderChanged).
    const askedAgain = (error: unknown) => {
      if (!(error instanceof EtcdError) || !LEADER_CHANGED.test(error.message) || performance.now() > until) throw error
      return ask()
    }
    const answer = await ask().catch(askedAgain)
    return { kvs: answer.kvs.map(keyValue), more: answer.more, revision: Number(answer.header.revision) }
  }

  return {
    get: async (name, given = {}) => (await range(Buffer.from(name), undefined, given)).kvs[0],
    range: (prefix, { from = prefix, ...given } = {}) => range(Buffer.from(from), prefixEnd(prefix), given),
    async txn(compares, ops, ms) {
      const answer = await call<Headed & { succeeded: boolean }>('KV', 'Txn', await codes.request(compares, ops), ms)
      return { succeeded: answer.succeeded, revision: Number(answer.header.revision) }
    },
    watch(prefix, from, listener) {
      const metadata = new grpc.Metadata()
      // Without it a member that is cut off would never say so.
      metadata.set('hasleader', 'true')
      return follow(stream('Watch', 'Watch', metadata), codes.told, prefix, from, listener)
    },
    status: (ms = 1000) => call<Status>('Maintenance', 'Status', {}, ms, true),
    members: async () => (await call<{ members: Member[] }>('Cluster', 'MemberList', {}, 1000, true)).members,
    addLearner: (peerUrl) => call('Cluster', 'MemberAdd', { peerURLs: [peerUrl], isLearner: true }, MEMBERSHIP_MS),
    removeMember: async (ID) => void (await call('Cluster', 'MemberRemove', { ID }, MEMBERSHIP_MS)),
    promote: async (ID) => void (await call('Cluster', 'MemberPromote', { ID }, MEMBERSHIP_MS)),
    moveLeader: async (targetID) => void (await call('Maintenance', 'MoveLeader', { targetID }, MEMBERSHIP_MS)),
    grant: async (TTL) => (await call<{ ID: string }>('Lease', 'LeaseGrant', { TTL })).ID,
    revoke: async (ID) => void (await call('Lease', 'LeaseRevoke', { ID })),
    keepAlive(ID, lost) {
      const beats = stream('Lease', 'LeaseKeepAlive') as ClientDuplexStream<object, { TTL: string }>
      let over = false
      const end = () => {
        if (over) return
        over = true
        beats.cancel()
        lost()
      }
      beats.on('data', ({ TTL }) => TTL === '0' && end())
      beats.on('error', end)
      beats.on('end', end)
      return {
        beat: () => void (over || beats.write({ ID })),
        stop() {
          over = true
          beats.cancel()
        },
      }
    },
    compact: async (revision) => void (await call('KV', 'Compact', { revision, physical: true }, DEFRAGMENT_MS)),
    defragment: async () => void (await call('Maintenance', 'Defragment', {}, DEFRAGMENT_MS, true)),
    alarms: async () =>
      (await call<{ alarms: { memberID: string; alarm: string }[] }>('Maintenance', 'Alarm', { action: 'GET' })).alarms,
    disarm: async (alarm) => void (await call('Maintenance', 'Alarm', { action: 'DEACTIVATE', ...alarm })),
    cancelWaiting() {
      for (const running of waiting) running.cancel()
    },
    renew(other) {
      disconnect()
      stubs = connect(other)
    },
    close: disconnect,
  }
}
