/** Random changes of everything that the entries of billing follow from. */
import { chance } from '../../../test/chance.ts'

/** Status and body of an answer. */
export type Call = (
  method: string,
  path: string,
  body?: object | undefined,
) => Promise<{ status: number; text: string; body: Record<string, unknown> }>

type Made = [method: string, path: string, body?: object | undefined]

const P = '/api/v1'
const MACHINES = '/control/v1/compute/machines'
const CIDRS = ['10.0.0.0/24', '10.1.0.0/24', '10.2.0.0/28', '10.3.0.0/30']
const RANGES = ['8.8.4.0/30', '8.8.4.8/32', '9.9.9.4/30']

export class Changes {
  /** Kinds that succeeded. */
  readonly done = new Set<string>()
  readonly #call: Call
  readonly #random: () => number
  #names = 0

  /** `call` reaches the control socket too. */
  constructor(call: Call, seed: number) {
    this.#call = call
    this.#random = chance(seed)
  }

  /** Some tenants with a network each, one of them limited: from here on most changes mean something. */
  async begin(): Promise<void> {
    for (let n = 0; n < 3; n++) {
      const { body } = await this.#call('POST', `${P}/tenant`, { name: `t${n}` })
      const { id } = body.tenant as { id: string }
      await this.#call('POST', `${P}/networks`, { name: `first${n}`, cidr: CIDRS[n], tenant_id: id })
      if (n === 0) await this.#call('POST', `${P}/billing/tenants/${id}/limit`, { rate_bps: 5 })
    }
  }

  /** One change, whether or not it fits. */
  async one(): Promise<void> {
    const [kind, make] = this.#pick(Object.entries(this.#kinds))
    const [method, path, body] = await make()
    const { status, text } = await this.#call(method, path, body)
    if (status >= 500) throw new Error(`${kind}: ${status} ${text}`)
    if (status < 300) this.done.add(kind)
  }

  /** Deletes whatever there is. */
  async clear(): Promise<void> {
    for (let n = 0; n < 4; n++) await this.#call('DELETE', `${MACHINES}/vm${n}`)
    for (const id of await this.#ids('/tenant', 'tenants')) await this.#call('DELETE', `${P}/tenant/${id}`)
    for (const id of await this.#ids('/networks', 'networks')) await this.#call('DELETE', `${P}/networks/${id}`)
    for (const id of await this.#ids('/routed-addresses', 'ranges')) {
      await this.#call('DELETE', `${P}/routed-addresses/${id}`)
    }
  }

  readonly #kinds = {
    tenant: async () => ['POST', `${P}/tenant`, { name: `t${this.#names++ % 4}` }],
    untenant: async () => ['DELETE', `${P}/tenant/${await this.#tenant()}`],
    status: async () => ['PUT', `${P}/tenant/${await this.#tenant()}`, { status: this.#pick(['active', 'suspended']) }],
    network: async () => {
      const tenant = this.#chance(0.8) && { tenant_id: await this.#tenant() }
      return ['POST', `${P}/networks`, { name: `n${this.#names++}`, cidr: this.#pick(CIDRS), ...tenant }]
    },
    unnetwork: async () => ['DELETE', `${P}/networks/${this.#pick(await this.#ids('/networks', 'networks'))}`],
    range: async () => {
      const tenant = this.#chance(0.8) && { tenant_id: await this.#tenant() }
      return ['POST', `${P}/routed-addresses`, { cidr: this.#pick(RANGES), ...tenant }]
    },
    unrange: async () => ['DELETE', `${P}/routed-addresses?cidr=${this.#pick(RANGES)}`],
    machine: async () => {
      const network = this.#chance(0.5) && { network: this.#pick(await this.#ids('/networks', 'networks')) }
      return ['POST', MACHINES, { machine: `vm${this.#below(4)}`, ...network, public_ip: 'auto' }]
    },
    reserved: async () => ['POST', MACHINES, { machine: `vm${this.#below(4)}`, public_ip: `8.8.4.${this.#below(4)}` }],
    unmachine: async () => ['DELETE', `${MACHINES}/vm${this.#below(4)}`],
    detach: async () => {
      const id = this.#pick(await this.#ids('/networks', 'networks'))
      const { body } = await this.#call('GET', `${P}/networks/${id}/endpoints?state=bound`)
      const endpoint = this.#pick((body.endpoints as { id: string }[] | undefined) ?? [])
      return ['POST', `${P}/networks/${id}/endpoints/${endpoint?.id}/detach`]
    },
    suspend: async () => this.#act('suspend', this.#pick([{}, { block_traffic: true }, { block_traffic: false }])),
    block: async () => this.#act('suspend', { block_traffic: true }),
    resume: async () => this.#act('resume'),
    limit: async () => this.#act('limit', { rate_bps: 1 + this.#below(1000) }),
    unlimit: async () => this.#act('unlimit'),
  } satisfies Record<string, () => Promise<Made>>

  async #act(action: string, body?: object | undefined): Promise<Made> {
    return ['POST', `${P}/billing/tenants/${await this.#tenant()}/${action}`, body]
  }

  async #tenant(): Promise<string> {
    return this.#pick(await this.#ids('/tenant', 'tenants')) ?? 'none'
  }

  async #ids(path: string, key: string): Promise<string[]> {
    const { body } = await this.#call('GET', `${P}${path}`)
    return (body[key] as { id: string }[]).map(({ id }) => id)
  }

  #chance(share: number): boolean {
    return this.#random() < share
  }

  #below(end: number): number {
    return Math.floor(this.#random() * end)
  }

  #pick<T>(list: readonly T[]): T {
    // Of an empty list nothing: the path then names nothing either.
    return list[this.#below(list.length)] as T
  }
}
