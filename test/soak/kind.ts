/** A kind of change that the soak makes. */
import type { Dice } from './dice.ts'
import type { Effect, Fields, Model } from './model.ts'

// biome-ignore lint/suspicious/noExplicitAny: each kind draws its own arguments and is given them back
export type Args = any
export type Request = readonly [method: string, path: string, body?: object]

export interface Kind {
  /** Draws the arguments of one, plain data; undefined where there is nothing to change. */
  propose(model: Model, dice: Dice): Args | undefined
  /** `name` is that of the row that it makes. */
  request(args: Args, name: string, model: Model): Request
  /** What it does when it is carried out. */
  effect(args: Args, name: string, model: Model): Effect[]
  /** The collection of the row that it makes, and its id in the answer; an `on` in the arguments is the row that gets this id. */
  made?: readonly [collection: string, id: (body: Args) => unknown, of?: 'on']
}

export const P = '/api/v1'

/** What streams of the soak rest on is called `own…`, and stays as it is. */
export const others = (model: Model, of: string): string[] => model.names(of).filter((name) => !name.startsWith('own'))

/** One of them; undefined where there is none. */
export function another(model: Model, dice: Dice, of: string): string | undefined {
  const names = others(model, of)
  return names.length > 0 ? dice.pick(names) : undefined
}

export const below = (model: Model, of: string, holds: Fields): Effect[] =>
  model.where(of, holds).map((name) => ({ of, name }))

/** Takes a row away, and what hangs on it. */
export function removal(
  of: string,
  path: (id: string, name: string, model: Model) => string,
  along: (model: Model, name: string) => Effect[] = () => [],
): Kind {
  return {
    propose: (model, dice) => wanted(another(model, dice, of)),
    request: ({ on }, _, model) => ['DELETE', path(encodeURIComponent(model.id(of, on)), on, model)],
    effect: ({ on }, _, model) => [...along(model, on), { of, name: on }],
  }
}

/** The arguments of what is done to one row. */
export const wanted = (on: string | undefined, more: object = {}): Args | undefined =>
  on === undefined ? undefined : { on, ...more }

/** Numbers of a step, for what must be unlike all others. */
export const numberOf = (name: string): number => Number(/\d+/.exec(name)?.[0] ?? 0)
