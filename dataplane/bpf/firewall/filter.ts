/** What the classifier tells besides carrying out entries. */

/** A packet that opens a connection, or one without. */
export interface FilterPacket {
  /** Addresses of one family. */
  source: string
  dest: string
  /** IP protocol number. */
  protocol: number
  /** 0 for a protocol without ports. */
  sourcePort: number
  destPort: number
  /** Device that it came in by; '' for none that a rule names. */
  interface: string
  /** Source MAC address; '' on a link without. */
  mac: string
}

export interface FilterVerdict {
  /** The rule that decides; absent: none, so the default. */
  id?: number
  accept: boolean
  /** Tables that were looked into. */
  probes: number
}

export interface Hits {
  packets: bigint
  bytes: bigint
}

export interface Filter {
  /** Whether the classifier judges by the rules; false: nft does, one rule after the other. */
  readonly accelerated: boolean
  /** Hits of the rule with this id since it was made: packets that open a connection or have none. */
  count(id: number): Hits | undefined
  /** Asks the tables in the kernel. @throws Error when not accelerated */
  trace(packet: FilterPacket): Promise<FilterVerdict>
  /** One line for people. */
  detail(): string
}

/** A node whose kernel has no place for the classifier. */
export const NO_FILTER: Filter = {
  accelerated: false,
  count: () => undefined,
  trace: async () => {
    throw new Error('the classifier does not run on this node')
  },
  detail: () => 'rules are compared one by one (nft)',
}
