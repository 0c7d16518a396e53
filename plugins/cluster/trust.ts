/** Carries out what `nextStep` says, one step at a time, as long as this node is a member. */
import { certificatesIn, fingerprint256, fingerprintsOf, issuerOf, showOwn } from './authority.ts'
import { makeAuthority } from './certificates.ts'
import type { EngineContext } from './engine.ts'
import { type Session, untilAnswers } from './etcd/session.ts'
import { put, remove } from './etcd/words.ts'
import type { Files } from './files.ts'
import { META, trustKey } from './keys.ts'
import * as membership from './membership.ts'
import { knownOf } from './standing.ts'
import type { Self } from './tables.ts'
import { nextStep, type Step, type TrustRecord } from './trusting.ts'
import type { Watching } from './watching.ts'

/** Should a step fail, for one because another member is at it. */
const RETRY_MS = 1000
/** From starting etcd anew to its having a leader. */
const BACK_MS = 8000

export interface Trust {
  start(session: Session, me: Self): Promise<void>
  stop(): void
  /** Authorities that the members trust and this node has not heard of: etcd is started anew with them. */
  learn(authorities: readonly string[]): Promise<void>
  /** Resolves, and never rejects, once etcd answers that is being started anew to trust others; undefined while it is not. */
  anew(): Promise<void> | undefined
}

export interface TrustParts {
  context: Pick<EngineContext, 'log' | 'now' | 'exclusively'>
  files: Files
  watching: Watching
  closing: AbortSignal
  /** One step of this node's life at a time. */
  next<T>(work: () => Promise<T>): Promise<T>
}

export function openTrust({ context, files, watching, closing, next }: TrustParts): Trust {
  const { log, now } = context
  let at: { session: Session; me: Self; loaded: string } | undefined
  let stopListening = () => {}
  let timer: NodeJS.Timeout | undefined
  let busy = false
  let anew: Promise<void> | undefined

  function ownRecord(loaded: string): TrustRecord | undefined {
    const [tls, authority] = [files.tls(), files.authority()]
    if (tls === undefined || authority === undefined) return undefined
    const shows = issuerOf(tls)
    return {
      authority: authority.certificate,
      trusts: fingerprintsOf(certificatesIn(loaded)),
      shows: shows === '' ? '' : fingerprint256(shows),
    }
  }

  async function advance(): Promise<void> {
    clearTimeout(timer)
    if (busy) return
    busy = true
    try {
      while (await next(once)) await watching.look()
    } catch (error) {
      log.debug({ err: error }, 'what the members trust is changed later')
    } finally {
      busy = false
      if (at) timer = setTimeout(() => void advance(), RETRY_MS).unref()
    }
  }

  /** False: there is nothing to do now. */
  async function once(): Promise<boolean> {
    const [of, standing] = [at, watching.standing()]
    if (of === undefined || !standing?.writable) return false
    // It was a member before each had its own.
    if (files.authority() === undefined) files.keepAuthority(await makeAuthority(of.me.cluster, of.me.node))
    const own = ownRecord(of.loaded)
    if (own === undefined) return false
    const step = nextStep(knownOf(standing), of.me.node, own, files.formerKey() !== undefined)
    if (step === undefined) return false
    await carryOut(of, step)
    return at === of
  }

  async function carryOut(of: NonNullable<typeof at>, step: Step): Promise<void> {
    const { session, me } = of
    switch (step.do) {
      case 'tell':
        return void (await session.etcd.txn([], [put(trustKey(me.node), JSON.stringify(step.record))]))
      case 'trust':
        // Others wait: each has the majority when its turn comes.
        return membership.alone(session.etcd, me.node, () => goBy(of, step.authorities), 0)
      case 'show':
        await showOwn(files, me, now())
        session.renew()
        return log.info('this member shows a certificate of its own authority')
      case 'forget':
        await session.etcd.txn([], [remove(META.ca)])
        return files.forgetFormerKey()
    }
  }

  async function goBy(of: NonNullable<typeof at>, authorities: readonly string[]): Promise<void> {
    if (at !== of) return
    const { session } = of
    const ca = authorities.join('')
    const back = () => untilAnswers(session, (own) => own.get(META.id, { ms: 500 }), BACK_MS, closing)
    await membership.yieldTo(session.etcd).catch(() => {})
    // Changes wait meanwhile; they would be refused.
    await context.exclusively(async () => {
      const tls = files.tls()
      if (tls === undefined) return
      files.keep({ ...tls, ca })
      const restarted = watching.hold(async () => {
        await session.restart()
        of.loaded = ca
        await back()
      })
      anew = restarted
        .catch(() => {})
        .finally(() => {
          anew = undefined
        })
      await restarted
      await watching.look()
    })
    log.info({ authorities: fingerprintsOf(authorities) }, 'etcd was started anew, to trust the members there are')
    watching.tell()
  }

  return {
    async start(session, me) {
      const tls = files.tls()
      if (tls === undefined) return
      at = { session, me, loaded: tls.ca }
      stopListening = watching.onChange(() => void advance())
      void advance()
    },
    stop() {
      at = undefined
      stopListening()
      clearTimeout(timer)
    },
    learn: (authorities) =>
      next(async () => {
        const [of, tls] = [at, files.tls()]
        if (of === undefined || tls === undefined || watching.standing()?.writable) return
        const known = fingerprintsOf(certificatesIn(tls.ca))
        const fresh = authorities.filter((one) => !known.includes(fingerprint256(one)))
        if (fresh.length === 0) return
        log.warn({ authorities: fingerprintsOf(fresh) }, 'a member names members that came while this node was away')
        const all = [...certificatesIn(tls.ca), ...fresh]
        files.keep({ ...tls, ca: all.join('') })
        await of.session.restart()
        of.loaded = all.join('')
      }),
    anew: () => anew,
  }
}
