/** Numbers of the devices that rules name (map `filter_devices`). Whether there is a device of a name does not matter. */
import { FILTER_DEVICES } from '../../numbers.ts'
import { type Codec, u32 } from '../codec.ts'
import type { BpfMap } from '../map.ts'
import { NoRoom } from './room.ts'

/** A name as the kernel keeps it, with zeros behind. */
export const deviceName: Codec<string> = {
  size: 16,
  encode(into, at, name) {
    into.fill(0, at, at + 16)
    into.write(name, at, 15, 'latin1')
  },
  decode: (from, at) => from.toString('latin1', at, from.indexOf(0, at)),
}
export const deviceNumber = u32

export class DeviceNames {
  readonly #map: BpfMap<string, number>
  readonly #numbers = new Map<string, number>()
  readonly #names: (string | undefined)[] = []
  /** Images that ask for a number. */
  readonly #users: number[] = []

  /** Takes over what stands in the map. */
  constructor(map: BpfMap<string, number>) {
    this.#map = map
    for (const [name, number] of map.entries()) this.#know(name, number)
  }

  /** Images that ask for a device. */
  get users(): number {
    return this.#users.reduce((sum, it) => sum + it, 0)
  }

  /** 0 when no rule names it. */
  number(name: string): number {
    return this.#numbers.get(name) ?? 0
  }

  name(number: number): string | undefined {
    return this.#names[number]
  }

  /** A further image asks for the device. @throws NoRoom */
  use(name: string): number {
    let number = this.#numbers.get(name)
    if (number === undefined) {
      number = 1
      while (this.#names[number] !== undefined) number++
      if (number > FILTER_DEVICES) throw new NoRoom(`rules name more than ${FILTER_DEVICES} devices`)
      this.#map.set(name, number)
      this.#know(name, number)
    }
    this.adopt(number)
    return number
  }

  /** An image that is there asks for it. */
  adopt(number: number): void {
    this.#users[number] = (this.#users[number] ?? 0) + 1
  }

  /** An image that asked for it is gone, and no packet meets it any longer. */
  release(number: number): void {
    const left = (this.#users[number] ?? 0) - 1
    this.#users[number] = Math.max(0, left)
    if (left <= 0) this.#forget(number)
  }

  /** Names that no rule asks for go. */
  prune(): void {
    for (const [number, name] of this.#names.entries()) {
      if (name !== undefined && !this.#users[number]) this.#forget(number)
    }
  }

  #know(name: string, number: number): void {
    this.#numbers.set(name, number)
    this.#names[number] = name
  }

  #forget(number: number): void {
    const name = this.#names[number]
    if (name === undefined) return
    this.#map.delete(name)
    this.#numbers.delete(name)
    this.#names[number] = undefined
  }
}
