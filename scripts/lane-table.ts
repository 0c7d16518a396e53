/** What a lane prints at its end: a row for each test, a column for each place it ran in. */

export interface Row {
  place: string
  test: string
  seconds: number
  passed: boolean
}

/** Seconds, `FAILED`, or nothing where the test was not run. */
export function laneTable(rows: readonly Row[]): string {
  const places = [...new Set(rows.map(({ place }) => place))]
  const tests = [...new Set(rows.map(({ test }) => test))]
  const width = Math.max(...tests.map((test) => test.length)) + 2
  const line = (first: string, cells: readonly string[]) =>
    `${first.padEnd(width)}${cells.map((cell) => cell.padStart(16)).join('')}\n`
  const body = tests.map((test) =>
    line(
      test,
      places.map((place) => {
        const row = rows.find((it) => it.place === place && it.test === test)
        return row === undefined ? '' : row.passed ? `${row.seconds.toFixed(1)} s` : 'FAILED'
      }),
    ),
  )
  return `${line('', places)}${body.join('')}`
}
