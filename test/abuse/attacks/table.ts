/**
 * The table of attacks: who tries what, and what must come of it. A row is either tried on the spot, against a real agent
 * (`stranger.ts`, `guest.ts`), or names the test that tries it (`proven.ts`). Whoever adds a capability adds its rows.
 */

/** Who attacks. What each of them is trusted with stands in SECURITY.md. */
export type Attacker = 'stranger' | 'tenant' | 'guest' | 'neighbour' | 'member' | 'local user'

/** An attempt over a TLS connection of its own to the API port. */
export interface Request {
  what: string
  /** Bytes as they go over the wire; several pieces wait for each other's answer. */
  send: string
  /** Statuses that answer it, one a response, joined by spaces; '' when the connection ends without one. */
  expected: RegExp
}

/** Frames that a guest's device sends. */
export interface Frames {
  what: string
  /** Made of the world, because addresses and MACs are those of its guests. */
  frames(world: Addresses): Buffer[]
  /** Who must see none of them; `control` must see them, which shows that the frame is well made. */
  expected: 'nobody' | 'same network'
}

/** What frames are made of. The attacker is `mac` and `ip` in the network of `neighbour`; `stranger` is of another tenant. */
export interface Addresses {
  mac: string
  ip: string
  neighbour: { mac: string; ip: string }
  stranger: { mac: string; ip: string }
  node: { mac: string; gateway: string }
}

/** A row that another test proves. */
export interface Proven {
  by: Attacker
  what: string
  /** Path of the test below the repository, and a piece of the title of the test in it. */
  file: string
  title: string
}
