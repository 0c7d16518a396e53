/**
 * The account under which the responder answers. Nothing else may run under it: whoever has the same uid may signal this process.
 */

export interface Account {
  uid: number
  gid: number
}

/** The package makes it (templates/package/sysusers.conf). */
const NAME = 'stratum-responder'
/** Numbers that neither Debian (policy 9.2.2) nor systemd gives to anybody. */
const RESERVED = { first: 65_520, last: 65_533 }

/**
 * The account `stratum-responder` of `/etc/passwd`; without one the first number from 65520 to 65533 that is in neither file.
 * The files are read, and no directory service is asked. Throws Error when none is left.
 */
export function responderAccount(passwd: string, group: string): Account {
  const users = fieldsOf(passwd)
  const own = users.find(([name]) => name === NAME)
  const [uid, gid] = [Number(own?.[2]), Number(own?.[3])]
  // Of a line that makes it root or nothing at all somebody else is to blame; it is not obeyed.
  if (uid > 0 && gid > 0) return { uid, gid }
  const taken = new Set([...users, ...fieldsOf(group)].map(([, , id]) => Number(id)))
  for (let id = RESERVED.first; id <= RESERVED.last; id++) if (!taken.has(id)) return { uid: id, gid: id }
  throw new Error(`there is no account ${NAME}, and all of ${RESERVED.first} to ${RESERVED.last} are taken; create it`)
}

const fieldsOf = (text: string): string[][] => text.split('\n').map((line) => line.split(':'))
