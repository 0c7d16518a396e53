/** Bodies, before any route sees them: strict JSON, no duplicate keys. */

import t from 'tap'
import { fc } from '../../../test/property.ts'
import { ApiError } from '../../errors.ts'
import { duplicateKey, parseBody } from '../json.ts'

/** The status and text of the refusal, or the value. */
function outcome(text: string): unknown {
  try {
    return { value: parseBody(text) }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    return { status: error.status, error: error.message }
  }
}

t.test('D11 an empty body is an empty object', async (t) => {
  for (const text of ['', ' ', '\r\n\t ']) t.same(outcome(text), { value: {} }, JSON.stringify(text))
})

t.test('conv-17 D10 what is not exactly one JSON value is malformed', async (t) => {
  const malformed = [
    '{',
    '}',
    '{}{}',
    '{} x',
    '{},',
    '{"a":1,}',
    "{'a':1}",
    '{a:1}',
    '{"a":01}',
    '{"a":+1}',
    '{"a":.5}',
    '{"a":1.}',
    '{"a":0x10}',
    '{"a":NaN}',
    '{"a":Infinity}',
    '{"a":undefined}',
    '{"a":"\n"}',
    '{"a":"\u0000"}',
    '{"a":"\\x41"}',
    '{"a":"\\u12"}',
    '{"a":1}\u0000',
    '// note\n{}',
    '{/**/}',
    '\ufeff{}',
    '\u00a0{}',
    '[1,]',
    'nul',
    "'x'",
    ',',
    ':',
    '{"a"}',
    '{"a":}',
    '{"a" 1}',
  ]
  for (const text of malformed) {
    t.match(outcome(text), { status: 400, error: /^malformed JSON/ }, JSON.stringify(text))
  }
})

t.test('D10 duplicate keys are refused wherever they stand and however they are spelt', async (t) => {
  const duplicates: [string, string][] = [
    ['{"a":1,"a":1}', 'a'],
    ['{"a":1,"b":2,"a":3}', 'a'],
    ['{"a" : 1 , "a"\n:\t2}', 'a'],
    ['{"a":1,"\\u0061":2}', 'a'],
    ['{"\\u00e9":1,"é":2}', 'é'],
    ['{"\\/":1,"/":2}', '/'],
    ['{"":1,"":2}', ''],
    ['{"x":{"a":1,"a":2}}', 'a'],
    ['{"x":[{"a":1},{"a":1,"a":2}]}', 'a'],
    ['[{"a":{"b":{}},"a":1}]', 'a'],
    ['{"a":{"a":1},"a":2}', 'a'],
    ['{"a":"}","a":1}', 'a'],
    ['{"a":"\\"","a":1}', 'a'],
    ['{"a":"\\\\","a":1}', 'a'],
    ['{"__proto__":1,"__proto__":2}', '__proto__'],
    ['{"constructor":1,"constructor":2}', 'constructor'],
  ]
  for (const [text, key] of duplicates) t.same(outcome(text), { status: 400, error: `duplicate key: ${key}` }, text)
})

t.test('D10 what only looks like a duplicate is none', async (t) => {
  const fine = [
    '{"a":{"a":{"a":1}}}',
    '[{"a":1},{"a":1}]',
    '{"a":"a","b":"a"}',
    '{"a":["a","a"],"b":"\\"a\\":1"}',
    '{"a":1,"A":2}',
    '{"a":"{\\"b\\":1,\\"b\\":2}"}',
    '{"x":{"a":1},"y":{"a":1},"a":1}',
    '{"a":"\\\\\\""  ,"b":1}',
    '{"toString":1,"hasOwnProperty":2}',
  ]
  for (const text of fine) t.same(outcome(text), { value: JSON.parse(text) }, text)
})

t.test('a parsed body never reaches a prototype', async (t) => {
  const parsed = parseBody('{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}')
  t.same(Object.keys(parsed as object), ['__proto__', 'constructor'])
  t.equal(({} as { polluted?: boolean }).polluted, undefined)
})

t.test('D10 every JSON value parses to itself, and a key doubled anywhere is found', async (t) => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 5 }), fc.constantFrom('', ' ', '\n\t '), (text, space) => {
      t.same(outcome(`${space}${text}${space}`), { value: JSON.parse(text) })
    }),
    { numRuns: 500 },
  )
  const object = fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue({ maxDepth: 2 }), { minKeys: 1, maxKeys: 5 })
  fc.assert(
    fc.property(object, fc.nat(), fc.jsonValue({ maxDepth: 1 }), fc.boolean(), (value, at, again, nested) => {
      const keys = Object.keys(value)
      const key = keys[at % keys.length] ?? ''
      const doubled = `${JSON.stringify(value).slice(0, -1)},${JSON.stringify(key)}:${JSON.stringify(again)}}`
      t.equal(duplicateKey(nested ? `{"outer":[1,${doubled}]}` : doubled), key.slice(0, 64))
    }),
    { numRuns: 500 },
  )
})

t.test('a body of 1 MiB is judged in little time, whatever is in it', async (t) => {
  const size = 1_048_576
  const fill = (unit: string, head = '', tail = '') =>
    head + unit.repeat(Math.floor((size - head.length) / unit.length)) + tail
  const keys = Array.from({ length: 100_000 }, (_, i) => `"k${i}":0`).join(',')
  const bodies = {
    brackets: fill('['),
    closed: `${'['.repeat(size / 2)}${']'.repeat(size / 2)}`,
    objects: `${'{"a":'.repeat(150_000)}1${'}'.repeat(150_000)}`,
    quotes: fill('"'),
    backslashes: fill('\\\\', '{"a":"', '"}'),
    escapes: fill('\\u0041', '{"a":"', '"}'),
    blanks: fill(' ', '{"a"', ':1}'),
    'blanks after a value': fill(' ', '{"a":"b"', '}'),
    keys: `{${keys}}`,
    'escaped keys': `{${keys.replaceAll('"k', '"\\u006b')}}`,
    'strings and blanks': `[${fill('"a"      ,', '', '"a"')}]`,
  }
  for (const [what, text] of Object.entries(bodies)) {
    const start = process.cpuUsage()
    outcome(text)
    const { user, system } = process.cpuUsage(start)
    t.ok(user + system < 1_000_000, `${what}: ${Math.round((user + system) / 1000)} ms of CPU`)
  }
})
