import t from 'tap'
import { responderAccount } from '../account.ts'

const ROOT = 'root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n'

t.test('the account that the package made is taken', async (t) => {
  const passwd = `${ROOT}stratum-responder:x:998:997:stratum-node:/:/usr/sbin/nologin\n`
  t.same(responderAccount(passwd, 'root:x:0:\n'), { uid: 998, gid: 997 })
})

t.test('without it a number that nobody has, never that of nobody, nor of root', async (t) => {
  t.same(responderAccount(ROOT, ''), { uid: 65_520, gid: 65_520 })
  t.same(responderAccount(`${ROOT}a:x:65520:1::/:\n`, 'b:x:65521:\n'), { uid: 65_522, gid: 65_522 })
  t.same(responderAccount(`${ROOT}stratum-responder:x:0:0::/:\n`, ''), { uid: 65_520, gid: 65_520 })
  t.same(responderAccount(`${ROOT}stratum-responder\n`, ''), { uid: 65_520, gid: 65_520 })
})

t.test('where all are taken it says what to do', async (t) => {
  const users = Array.from({ length: 14 }, (_, n) => `u${n}:x:${65_520 + n}:1::/:\n`).join('')
  t.throws(() => responderAccount(users, ''), /no account stratum-responder.*create it/)
})
