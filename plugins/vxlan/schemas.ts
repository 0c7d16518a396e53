import { type Static, Type } from 'typebox'
import { AddressText, StringEnum } from '../../core/schemas.ts'

/** 24 bits (RFC 7348 §5); 0 is none. */
const Vni = Type.Integer({ minimum: 1, maximum: 16_777_215 })
/** What an operator calls the machine behind a VTEP: a label, never looked up. */
const Host = Type.String({ title: 'an IP address or a host name', pattern: '^[A-Za-z0-9._:-]{1,253}$' })

export const NetworkInput = Type.Object({
  vni: Vni,
  subnet: Type.Optional(AddressText),
  network: Type.Optional(
    Type.String({
      title: 'id or name of a private network',
      pattern: '^[A-Za-z0-9._ -]{0,64}$',
      description: 'id or name of the private network to carry',
    }),
  ),
})
export const PeerInput = Type.Object({ host: Host, vtep_ip: AddressText, mac: Type.Optional(AddressText) })

/** `mac` is '' where the addresses behind the peer are learned. */
export const Peer = Type.Object({ host: Type.String(), mac: Type.String(), vtep_ip: Type.String() })

const shown = {
  vni: Vni,
  subnet: Type.String({ description: 'empty for none' }),
  network_id: Type.Optional(Type.String({ description: 'the private network that it carries' })),
  closed: Type.Optional(Type.String({ description: 'why it carries nothing' })),
}
export const Network = Type.Object({ ...shown, peers: Type.Array(Peer) })
export const NetworkList = Type.Object({ vxlan_networks: Type.Array(Network) })
export const NetworkCreated = Type.Object({ status: StringEnum(['created']), ...shown })
export const NetworkDeleted = Type.Object({ status: StringEnum(['deleted']), vni: Vni })

export const PeerList = Type.Object({ vni: Vni, peers: Type.Array(Peer) })
export const PeerAdded = Type.Object({ status: StringEnum(['added']), vni: Vni, host: Type.String() })
export const PeerRemoved = Type.Object({ status: StringEnum(['removed']), vni: Vni, host: Type.String() })

export const ForwardingList = Type.Object({
  fdb: Type.Array(Type.Object({ mac: Type.String(), vni: Vni, vtep_ip: Type.String() })),
})

export type NetworkInput = Static<typeof NetworkInput>
export type Network = Static<typeof Network>
export type PeerInput = Static<typeof PeerInput>
export type Peer = Static<typeof Peer>
