import t from 'tap'
import { Claims, type PortClaim } from '../claims.ts'

t.test('a claim tells the name that its device has by now, until the endpoint is placed elsewhere', async (t) => {
  let home = 7
  const claims = new Claims(() => home)
  const heard: PortClaim[] = []
  claims.listen((claim) => heard.push(claim))
  claims.tell({ net: 1, mac: '02:00:00:00:00:01', ifindex: 7, from: undefined })
  t.same(heard, [], 'no name is known')
  claims.note([{ ifindex: 7, name: 'a' }])
  t.match(heard, [{ net: 1, mac: '02:00:00:00:00:01', port: 'a', from: undefined }])
  const now = () => heard[0]?.now()
  t.equal(now(), 'a')
  claims.note([{ ifindex: 8, name: 'b' }])
  t.equal(now(), 'a', 'it has gone')
  home = 8
  t.equal(now(), undefined, 'placed elsewhere')
  home = 0
  t.equal(now(), undefined, 'begun anew')
  home = 7
  claims.note([
    { ifindex: 7, name: 'z' },
    { ifindex: 8, name: 'a' },
  ])
  t.equal(now(), 'z', 'renamed, and another has the name')
})
