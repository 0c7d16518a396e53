/** Commands of zones, records and DNSSEC. */
import { columns, path, type Verb } from '../../core/cli/verb.ts'
import type { Dnssec, Record, Zone } from './schemas.ts'

const ZONE = { name: 'zone', summary: 'number of the zone' }
const RECORD = { name: 'id', summary: 'number of the record' }

export const verbs: readonly Verb[] = [
  {
    path: 'dns zones list',
    summary: 'list the zones',
    example: 'dns zones list',
    async run({ call, print }) {
      const answer = await call<{ zones: Zone[] }>('GET', '/api/v1/dns/zones')
      const rows = answer.zones.map(({ id, name, serial }) => [id, name, serial])
      print(answer, rows.length === 0 ? 'no zones' : columns([['ID', 'NAME', 'SERIAL'], ...rows]))
    },
  },
  {
    path: 'dns zones add',
    summary: 'serve a zone; it answers when the command ends',
    example: 'dns zones add example.org',
    arguments: [{ name: 'name', summary: 'domain name' }],
    async run({ call, argument, print }) {
      const answer = await call<{ zone: Zone }>('POST', '/api/v1/dns/zones', { name: argument('name') })
      print(answer, `zone ${answer.zone.id} (${answer.zone.name}) added`)
    },
  },
  {
    path: 'dns zones delete',
    summary: 'delete a zone with its records',
    example: 'dns zones delete 1',
    arguments: [ZONE],
    async run({ call, argument, print }) {
      const answer = await call<{ id: number }>('DELETE', path`/api/v1/dns/zones/${argument('zone')}`)
      print(answer, `zone ${answer.id} deleted`)
    },
  },
  {
    path: 'dns records list',
    summary: 'list the records',
    example: 'dns records list --zone 1',
    options: [{ flags: '--zone <id>', summary: 'only those of this zone', integer: true }],
    async run({ call, options: { zone }, print }) {
      const query = zone === undefined ? '' : path`?zone_id=${String(zone)}`
      const answer = await call<{ records: Record[] }>('GET', `/api/v1/dns/records${query}`)
      const rows = answer.records.map((one) => [
        one.id,
        one.name,
        one.ttl,
        one.type,
        one.value,
        one.source_subnet ?? '',
      ])
      const head = ['ID', 'NAME', 'TTL', 'TYPE', 'VALUE', 'SUBNET']
      print(answer, rows.length === 0 ? 'no records' : columns([head, ...rows]))
    },
  },
  {
    path: 'dns records add',
    summary: 'add a record; it resolves when the command ends',
    example: 'dns records add 1 www A 192.0.2.10 --ttl 60',
    arguments: [
      ZONE,
      { name: 'name', summary: 'relative to the zone, or @ for the zone itself' },
      { name: 'type', summary: 'A, AAAA, PTR, CNAME, MX, TXT, NS, SOA or SRV' },
      { name: 'value', summary: 'as in a zone file; a TXT without quotes' },
    ],
    options: [
      { flags: '--ttl <duration>', summary: 'how long resolvers may keep it; default 300s', duration: true },
      { flags: '--source-subnet <cidr>', summary: 'who is answered with it, in place of everybody' },
    ],
    async run({ call, argument, options, print }) {
      const { ttl, 'source-subnet': subnet } = options
      const answer = await call<{ record: Record }>('POST', '/api/v1/dns/records', {
        zone_id: Number(argument('zone')),
        name: argument('name'),
        type: argument('type'),
        value: argument('value'),
        ...(ttl !== undefined && { ttl }),
        ...(subnet !== undefined && { source_subnet: subnet }),
      })
      const { id, name, type } = answer.record
      print(answer, `record ${id} (${type} ${name}) added`)
    },
  },
  {
    path: 'dns records delete',
    summary: 'delete a record',
    example: 'dns records delete 3',
    arguments: [RECORD],
    async run({ call, argument, print }) {
      const answer = await call<{ record_id: number }>('DELETE', path`/api/v1/dns/records/${argument('id')}`)
      print(answer, `record ${answer.record_id} deleted`)
    },
  },
  {
    path: 'dns dnssec',
    summary: 'sign a zone, and show what its parent must hold',
    example: 'dns dnssec example.org',
    arguments: [{ name: 'zone', summary: 'name of the zone' }],
    async run({ call, argument, print }) {
      const answer = await call<Dnssec>('GET', path`/api/v1/dns/dnssec/${argument('zone')}`)
      print(answer, answer.enabled ? [...answer.dnskey, answer.ds].join('\n') : `${answer.zone} is not signed`)
    },
  },
]
