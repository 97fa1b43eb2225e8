/** The endpoint picker behind a real Envoy, with stub engines: `npm run bench -- epp` in small, without its CPU figures. */
import { compareAdmissions } from '../../epp/admissions.ts'
import { findEnvoy } from '../../epp/envoy.ts'
import { type FailureModeRow, runFailureModes } from '../../epp/failure-modes.ts'
import { runLostEngine } from '../../epp/lost-engine.ts'
import { runModes } from '../../epp/modes.ts'
import { runRestarts } from '../../epp/restarts.ts'
import { openSite, type Site } from '../../epp/site.ts'
import { check, type Finding, type Lab, type Row } from '../row.ts'
import { inCache, missingIn } from '../standalone.ts'

const CHATS = 500
const ADMISSIONS = 200
const RESTART_CHATS = 1_000
const FAULT_CHATS = 200

const missing = (): string | null => missingIn('envoy', ['bin/envoy'], 'install-envoy.sh')

async function behindEnvoy(run: (site: Site) => Promise<string | Finding>): Promise<Finding> {
  const { program, version } = findEnvoy(inCache('envoy', 'bin', 'envoy'))
  const site = await openSite(program)
  try {
    const result = await run(site)
    const { seen, ...rest } = typeof result === 'string' ? { seen: result, detail: '' } : result
    return { ...rest, seen: `Envoy ${version}: ${seen}` }
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

/** Statuses without a picker that docs/endpoint-picker.md states. `*`: placed by the picker. */
const EXPECTED: Readonly<Record<string, Pick<FailureModeRow, 'killed' | 'stopped'>>> = {
  'full_duplex closed': { killed: '500', stopped: 'no answer' },
  'full_duplex open': { killed: '500', stopped: 'no answer' },
  'heads closed': { killed: '500', stopped: 'no answer' },
  'heads open': { killed: '500', stopped: 'no answer' },
  'buffered closed': { killed: '500', stopped: '504' },
  'buffered open': { killed: '200', stopped: '200' },
}

async function failureModes(site: Site, { note }: Lab): Promise<Finding> {
  const { rows, leaked } = await runFailureModes(site, note)
  for (const { mode, failure_mode, up, killed, stopped, back } of rows) {
    const name = `${mode} ${failure_mode}`
    check(up === '200*' && back === '200*', `${name}: ${up} before the picker ended, and ${back} after its return`)
    const expected = EXPECTED[name]!
    check(killed === expected.killed, `${name}: ${killed} while the picker was killed, not ${expected.killed}`)
    check(stopped === expected.stopped, `${name}: ${stopped} while the picker was stopped, not ${expected.stopped}`)
  }
  check(leaked === 0, `${leaked} bookings are left`)
  return {
    seen:
      'only `BUFFERED` with `failure_mode_allow: true` serves requests without a picker; all modes use the picker again ' +
      'when it is back; no booking left',
    detail: `Status of requests in each state of the only picker; \`*\`: it placed them.\n\n${tableOf(rows)}`,
  }
}

const tableOf = (rows: readonly FailureModeRow[]): string =>
  [
    '| mode | fails | up | killed | stopped | back |',
    '| --- | --- | --- | --- | --- | --- |',
    ...rows.map(
      ({ mode, failure_mode, up, killed, stopped, back }) =>
        `| \`${mode}\` | ${failure_mode} | ${up} | ${killed} | ${stopped} | ${back} |`,
    ),
  ].join('\n')

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
  {
    name: 'epp-failure-modes',
    says:
      'While the only picker of a real Envoy is killed or stopped, requests fail or go on as documented for each processing ' +
      'mode and `failure_mode_allow`, and the picker places requests again when it is back.',
    missing,
    run: (lab) => behindEnvoy((site) => failureModes(site, lab)),
  },
]
