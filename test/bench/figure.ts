/** What a bench prints: one figure a line, for people or as JSON. */
export interface Figure {
  bench: string
  figure: string
  value: number
  unit: string
  /** What was aimed for; absent when the figure is only told. */
  goal?: number
  ok?: boolean
  note?: string
}

export type Report = (figure: Omit<Figure, 'bench' | 'ok'> & { better?: 'lower' | 'higher' }) => void

export function reporter(bench: string, json: boolean): Report {
  return ({ better = 'lower', ...rest }) => {
    const value = Number(rest.value.toPrecision(4))
    const ok = rest.goal === undefined ? undefined : better === 'lower' ? value <= rest.goal : value >= rest.goal
    const figure: Figure = { bench, ...rest, value, ...(ok !== undefined && { ok }) }
    if (json) process.stdout.write(`${JSON.stringify(figure)}\n`)
    else process.stdout.write(`${line(figure)}\n`)
  }
}

function line({ figure, value, unit, goal, ok, note }: Figure): string {
  const aim = goal === undefined ? '' : `goal ${goal} ${ok ? 'met' : 'MISSED'}`
  return [figure.padEnd(34), String(value).padStart(10), unit.padEnd(8), aim.padEnd(18), note ?? ''].join(' ').trimEnd()
}

/**
 * What the rounds of one lane say of the machine, in the unit of the values. Of a floor, in which nothing of ours runs, it is noise:
 * a difference from it that is smaller tells nothing.
 */
export function spread(values: readonly number[]): string {
  const [least, low, high, most] = [0, 0.25, 0.75, 1].map((q) => Number(quantile(values, q).toPrecision(3)))
  return `half of its rounds ${low} to ${high}, all ${least} to ${most}`
}

/** The q-quantile by nearest rank. */
export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(q * sorted.length) - 1))] ?? Number.NaN
}
