/** The endpoint picker behind a real Envoy, with stub engines: `npm run bench -- epp` in small, without its CPU figures. */
import { compareAdmissions } from '../../epp/admissions.ts'
import { findEnvoy } from '../../epp/envoy.ts'
import { runLostEngine } from '../../epp/lost-engine.ts'
import { runModes } from '../../epp/modes.ts'
import { runRestarts } from '../../epp/restarts.ts'
import { openSite, type Site } from '../../epp/site.ts'
import { check, type Lab, type Row } from '../row.ts'
import { inCache, missingIn } from '../standalone.ts'

const CHATS = 500
const ADMISSIONS = 200
const RESTART_CHATS = 1_000
const FAULT_CHATS = 200

const missing = (): string | null => missingIn('envoy', ['bin/envoy'], 'install-envoy.sh')

async function behindEnvoy(run: (site: Site) => Promise<string>): Promise<string> {
  const { program, version } = findEnvoy(inCache('envoy', 'bin', 'envoy'))
  const site = await openSite(program)
  try {
    return `Envoy ${version}: ${await run(site)}`
  } finally {
    site.close()
  }
}

async function modes(site: Site, { note }: Lab): Promise<string> {
  const { compared, differ } = await compareAdmissions(site, ADMISSIONS)
  check(differ === 0, `${differ} of ${compared} admissions differ from those of the gateway`)
  const { rows, requests, lost, leaked } = await runModes(site, CHATS, note)
  check(lost === 0, `${lost} of ${requests} requests were lost`)
  check(leaked === 0, `${leaked} bookings are left`)
  const aborted = rows.reduce((sum, row) => sum + Number(row['aborted']), 0)
  const broken = rows.reduce((sum, row) => sum + Number(row['broken_calls']), 0)
  return `${requests} requests in four modes, ${aborted} aborted, none lost beside ${broken} broken calls; ${compared} equal admissions; no booking left`
}

async function restarts(site: Site): Promise<string> {
  const { terminated, killed, leaked, unclean } = await runRestarts(site, RESTART_CHATS)
  check(terminated.restarts > 0, 'no picker was restarted')
  check(terminated.lost === 0, `${terminated.lost} of ${terminated.sent} requests were lost`)
  check(unclean === 0, `${unclean} pickers did not end in order`)
  check(leaked === 0, `${leaked} bookings are left`)
  return (
    `${terminated.sent} requests during ${terminated.restarts} restarts by SIGTERM, none lost; with ${killed.restarts} ` +
    `restarts by SIGKILL ${killed.lost} of ${killed.sent} were lost; no booking left`
  )
}

async function engineDies(site: Site): Promise<string> {
  const { during, after, leaked } = await runLostEngine(site, FAULT_CHATS)
  check(during.complete > 0 && after.lost === 0, `${after.lost} of ${after.sent} requests were lost after the fault`)
  check(leaked === 0, `${leaked} bookings are left`)
  return `${during.lost} of ${during.sent} requests were lost when one of four engines died, none of the next ${after.sent}; no booking left`
}

export const eppRows: readonly Row[] = [
  {
    name: 'epp-modes',
    says:
      'Behind a real Envoy, in each processing mode, aborts, 400 KB prompts and a broken proxy beside it cost no other ' +
      'request and leave no booking; admissions equal those of the gateway.',
    missing,
    run: (lab) => behindEnvoy((site) => modes(site, lab)),
  },
  {
    name: 'epp-restarts',
    says: 'When pickers behind a real Envoy restart one after the other with SIGTERM under load, no request is lost.',
    missing,
    run: () => behindEnvoy(restarts),
  },
  {
    name: 'epp-engine-dies',
    says: 'When an engine behind a real Envoy and the picker dies, later requests are served by the others.',
    missing,
    run: () => behindEnvoy(engineDies),
  },
]
