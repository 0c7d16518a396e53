/** Parsers of what daemons say: they read what is there and survive anything else. */

import t from 'tap'
import { fc } from '../../../test/property.ts'
import { readBfd, readInstances, readNeighbors, readPrefixCounts, readQueued, routeReader } from '../answers.ts'
import { observed } from '../observed.ts'
import { routesOf } from '../readings.ts'
import { readStatements } from '../statements.ts'
import { answerReader, type Outcome } from '../vty.ts'

const RUNS = Number(process.env.FUZZ ?? 2000)
const all = { numRuns: RUNS, seed: 11 }

const LINE =
  '{ "routes": { "203.0.113.0/24": [{"prefix":"203.0.113.0/24","version":3},{"aspath":{"string":"65002 {1,2}","segments":[{"type":"as-sequence","list":[65002]},{"type":"as-set","list":[1,2]}],"length":1},"origin":"IGP","metric":55,"locPrf":100,"valid":true,"bestpath":{"overall":true},"community":{"string":"65002:7 no-export","list":["65002:7","noExport","gracefulShutdown"]},"lastUpdate":{"epoch":1795356013},"nexthops":[{"ip":"fe80::1","scope":"link-local"},{"ip":"10.7.0.2","afi":"ipv4","used":true}],"peer":{"peerId":"10.7.0.2"}},{"aspath":{"string":"Local"},"sourced":true}]'

t.test('a route is read from its line', async (t) => {
  t.same(routeReader()(LINE.slice(2)), [
    {
      ...{
        prefix: '203.0.113.0/24',
        nextHop: '10.7.0.2',
        asPath: [65002, 1, 2],
        localPref: 100,
        med: 55,
        origin: 'igp',
      },
      communities: ['65002:7', 'no-export', '65535:0'],
      ...{ peer: '10.7.0.2', best: true, receivedAt: 1_795_356_013 },
    },
  ])
})

/** As FRR 10.3 has told it. */
const TEN = `{
 "vrfId": 0,
 "vrfName": "default",
 "tableVersion": 4,
 "routerId": "10.0.0.1",
 "defaultLocPrf": 100,
 "localAS": 65001,
 "routes": { "10.9.0.0/16": {
"prefix": "10.9.0.0/16",
"version": 3,"advertisedTo": {
  "10.7.0.2":{}
}
,"paths": [{"aspath":{"string":"65002","segments":[{"type":"as-sequence","list":[65002]}],"length":1},"origin":"IGP","valid":true,"version":3,"bestpath":{"overall":true,"selectionReason":"First path received"},"lastUpdate":{"epoch":1795486699,"string":"Tue Nov 24 02:18:19 2026"},"nexthops":[{"ip":"10.7.0.2","afi":"ipv4","metric":0,"accessible":true,"used":true}],"peer":{"peerId":"10.7.0.2","routerId":"10.7.0.2","type":"external"}}]
} ,"192.0.2.0/24": {
"prefix": "192.0.2.0/24",
"version": 1,
"paths": [{"aspath":{"string":"Local","segments":[],"length":0},"origin":"IGP","metric":0,"weight":32768,"valid":true,"version":1,"sourced":true,"local":true,"bestpath":{"overall":true,"selectionReason":"First path received"},"nexthops":[{"ip":"0.0.0.0","hostname":"vm","afi":"ipv4","metric":0,"accessible":true,"used":true}],"peer":{"peerId":"0.0.0.0","routerId":"10.0.0.1"}}]
} ,"203.0.113.0/24": {
"prefix": "203.0.113.0/24",
"version": 4,
"paths": [{"aspath":{"string":"65002","segments":[{"type":"as-sequence","list":[65002]}],"length":1},"origin":"IGP","valid":true,"version":4,"bestpath":{"overall":true,"selectionReason":"First path received"},"community":{"string":"65002:7 no-export","list":["65002:7","noExport"]},"lastUpdate":{"epoch":1795486699,"string":"Tue Nov 24 02:18:19 2026"},"nexthops":[{"ip":"10.7.0.2","afi":"ipv4","metric":0,"accessible":true,"used":true}],"peer":{"peerId":"10.7.0.2","routerId":"10.7.0.2","type":"external"}}]
}  } , "totalRoutes": 3, "totalPaths": 3 }${' '}
`

t.test('of FRR 10 a route is read from two lines', async (t) => {
  const common = { nextHop: '10.7.0.2', asPath: [65002], origin: 'igp', peer: '10.7.0.2', best: true } as const
  t.same(TEN.split('\n').flatMap(routeReader()), [
    { prefix: '10.9.0.0/16', communities: [], receivedAt: 1_795_486_699, ...common },
    { prefix: '203.0.113.0/24', communities: ['65002:7', 'no-export'], receivedAt: 1_795_486_699, ...common },
  ])
})

const EIGHT = `{\n "vrfId": 0,\n "routes": { "1.0.0.0/8": [{"aspath":{}}]\n,"2.0.0.0/8": [{"aspath":{}}]\n }  } \n`

for (const [version, text, prefixes] of [
  ['8', EIGHT, '1.0.0.0/8,2.0.0.0/8'],
  ['10', TEN, '10.9.0.0/16,203.0.113.0/24'],
] as const)
  t.test(`lines of FRR ${version} are found however the answer is cut`, async (_t) => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.integer({ min: 1, max: 9 })), async (sizes) => {
        async function* pieces() {
          let at = 0
          for (const size of sizes) {
            yield Buffer.from(text.slice(at, at + size))
            at += size
          }
          yield Buffer.from(text.slice(at))
        }
        const found: string[] = []
        for await (const routes of routesOf(pieces())) found.push(...routes.map(({ prefix }) => prefix))
        return found.join() === prefixes
      }),
      { numRuns: 200, seed: 3 },
    )
  })

t.test('answers are told apart however they come', async (_t) => {
  const outcome = fc.record({
    text: fc.string().map((it) => it.replaceAll('\0', '')),
    rc: fc.integer({ min: 0, max: 255 }),
  })
  fc.assert(
    fc.property(fc.array(outcome), fc.integer({ min: 1, max: 7 }), (sent, size) => {
      const bytes = Buffer.concat(
        sent.map(({ text, rc }) => Buffer.concat([Buffer.from(text), Buffer.from([0, 0, 0, rc])])),
      )
      const got: Outcome[] = []
      const feed = answerReader((it) => got.push(it))
      for (let at = 0; at < bytes.length; at += size) feed(bytes.subarray(at, at + size))
      return (
        JSON.stringify(got) ===
        JSON.stringify(sent.map(({ text, rc }) => ({ ok: rc === 0, text: Buffer.from(text).toString() })))
      )
    }),
    all,
  )
})

t.test('nothing that a daemon could say makes a parser throw', async (_t) => {
  const words = fc.constantFrom(
    '"',
    '{',
    '}',
    '[',
    ']',
    ':',
    ',',
    'default',
    'as65001',
    '10.7.0.2',
    '"bgpState"',
    'Established',
    '\n',
    ' ',
    'neighbor ',
    'router bgp 1',
    '\n route-map M permit 1\n',
    'set community 1:x y',
    'address-family ipv4 unicast',
    '"routes": { "1.0.0.0/8": [',
    '\n"prefix": "1.0.0.0/8",\n',
    '\n,"paths": [{"aspath":{}}]\n',
    '__proto__',
    'null',
    '1e999',
    '-1',
  )
  const noise = fc.oneof(
    fc.string({ maxLength: 60 }),
    fc.array(words, { maxLength: 40 }).map((it) => it.join('')),
    fc.json(),
    fc.json().map((it) => `"1.0.0.0/8": [${it}]`),
    fc.json().map((it) => `"prefix": "1.0.0.0/8",\n"paths": [${it}]`),
  )
  const peers = fc
    .json()
    .map((it) => `{\n"default":{\n  "10.7.0.2":{\n    "messageStats":${it}\n  },\n  "x":${it}\n},\n"as1":${it}}`)
  await fc.assert(
    fc.asyncProperty(fc.oneof(noise, peers), async (text) => {
      const neighbors = await readNeighbors(text)
      for (const neighbor of neighbors) if (typeof neighbor.messagesIn !== 'number') throw new Error('no number')
      for (const route of text.split('\n').flatMap(routeReader()))
        if (!Array.isArray(route.communities) || typeof route.nextHop !== 'string') throw new Error('no route')
      readBfd(text)
      readInstances(text)
      if (!readPrefixCounts(text).every(Number.isFinite)) throw new Error('no number')
      for (const { line, in: path } of readStatements(text))
        if (line.trim() === '' || path.some((it) => it === '')) throw new Error('empty')
      for (const _ of observed(text, neighbors));
      answerReader(() => {})(Buffer.from(text))
    }),
    all,
  )
})

t.test('what waits in the queues of a daemon is summed', (t) => {
  const head = `     List     (ms)     Q. Runs Yields     Cycle Counts
P      Items      Hold      Total      Total       Best      Gran.      Total      Avg.    Name
`
  const row = (flag: string, items: number, name: string) =>
    `${flag}  ${items}        50         17         17          1          1         17         1    ${name}\n`
  t.equal(readQueued(head), 0)
  t.equal(readQueued(head + row(' ', 0, 'label callbacks') + row(' ', 0, 'process_queue (null)')), 0)
  t.equal(readQueued(head + row(' ', 3, 'label callbacks') + row('P', 1, 'process_queue (null)')), 4)
  t.equal(readQueued(''), 0)
  t.end()
})
