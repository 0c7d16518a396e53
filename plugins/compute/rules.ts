/** Domain rules of the machine registry: which machine has what. Knows neither Fastify nor the kernel. */
import type { Change, Db } from '../../core/area.ts'
import { notFound } from '../../core/errors.ts'
import { parseMac } from '../../dataplane/nft/text.ts'
import {
  attachNic,
  changeNicPort,
  detachNics,
  type Nic,
  type NicInput,
  networkCalled,
  nicsOf,
} from '../networks/offers.ts'
import { queries } from './queries.ts'
import type { Machine } from './schemas.ts'

/** Gives a machine a NIC; one that it has already and that is as asked for is answered as it is. */
export function attachMachine(
  tx: Db,
  name: string,
  wanted: NicInput,
  now: string,
): Change<{ status: 'attached'; machine: Machine; nic: Nic }> {
  const known = queries(tx).machine.get({ name })
  const held = known && wanted.network ? networkCalled(tx, wanted.network).id : undefined
  const same = known && nicsOf(tx, name).find((nic) => fulfils(nic, wanted, held))
  if (known === undefined) queries(tx).add.run({ name, createdAt: now })
  const { result: nic, ...change } = same ? { result: same, touch: [], events: [] } : attachNic(tx, name, wanted, now)
  return { ...change, result: { status: 'attached', machine: showMachine(tx, name), nic } }
}

/** Names another device for a NIC of a machine, or none. */
export function changeMachinePort(
  tx: Db,
  name: string,
  wanted: { port: string; mac?: string },
): Change<{ status: 'updated'; machine: Machine; nic: Nic }> {
  showMachine(tx, name)
  const { result: nic, ...change } = changeNicPort(tx, name, wanted)
  return { ...change, result: { status: 'updated', machine: showMachine(tx, name), nic } }
}

/** Gives back everything that a machine has, and forgets it. */
export function detachMachine(tx: Db, name: string): Change<{ status: 'detached'; machine: Machine }> {
  const machine = showMachine(tx, name)
  const { touch, events } = detachNics(tx, name)
  queries(tx).remove.run({ name })
  return { result: { status: 'detached', machine }, touch, events }
}

/** @throws ApiError 404 */
export function showMachine(db: Db, name: string): Machine {
  const row = queries(db).machine.get({ name })
  if (row === undefined) throw notFound('machine', name.replace(/[^\x21-\x7e]/g, '?').slice(0, 64))
  return toMachine(db, row)
}

export const toMachine = (db: Db, { name, createdAt }: { name: string; createdAt: string }): Machine => ({
  name,
  created_at: createdAt,
  networks: nicsOf(db, name),
})

/** Whether a NIC is all that is asked for. What is left out may be anything, but for the network and a public address. */
function fulfils(nic: Nic, wanted: NicInput, networkId: string | undefined): boolean {
  const { public_ip: address = '' } = wanted
  const public_ = address === 'auto' ? nic.public_ip !== undefined : (nic.public_ip ?? '') === address
  const given = (text: string | undefined, held: string | undefined) => !text || text === held
  const mac = wanted.mac && parseMac(wanted.mac)
  const rest = given(wanted.ip, nic.ip) && (!wanted.mac || mac === nic.mac) && given(wanted.port, nic.port)
  return nic.network_id === networkId && public_ && rest
}
