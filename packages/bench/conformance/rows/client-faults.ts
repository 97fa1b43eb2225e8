/** Clients for Python and JavaScript read every fault of all engines as an error. */
import { askAll, type SeenAnswer } from '../../client-faults/ask.ts'
import { faultClients, type FaultClient } from '../../client-faults/clients.ts'
import { ANSWER, faultNames } from '../../client-faults/faults.ts'
import { installClients, versionsOf } from '../../client-faults/install.ts'
import type { GatewayKind } from '../gateway.ts'
import { RefutedError, type Finding, type Lab, type Row } from '../row.ts'

/**
 * Returns what is wrong with an answer. null: it is as expected.
 * @testing
 */
export function wrongIn(answer: SeenAnswer, { raises }: Pick<FaultClient, 'raises'>): string | null {
  const { fault, raised, status, retryAfter, text } = answer
  if (fault === 'none') return raised === null && text === ANSWER ? null : `not the whole answer: ${raised ?? text}`
  if (raised === null) return `read as an answer: ${JSON.stringify(text)}`
  const expected = raises[fault]
  if (!expected.classes.includes(raised)) return `${raised} instead of ${expected.classes.join(' or ')}`
  if (expected.status !== undefined && status !== expected.status) return `status ${status}, not ${expected.status}`
  return fault.endsWith('busy') && !(Number(retryAfter) > 0) ? `429 with retry-after ${retryAfter}` : null
}

async function readFaults({ processes }: Lab, client: FaultClient): Promise<Finding> {
  const seen: { readonly kind: GatewayKind; readonly answer: SeenAnswer }[] = []
  for (const kind of ['node', 'worker'] as const)
    for (const answer of await askAll(client, kind, processes)) seen.push({ kind, answer })
  const wrong = seen.flatMap(({ kind, answer }) => {
    const found = wrongIn(answer, client)
    return found === null ? [] : [`${kind} ${answer.protocol} ${answer.fault}: ${found}`]
  })
  const answers = seen.map(({ answer }) => answer)
  const faulty = answers.filter(({ fault }) => fault !== 'none')
  const finding = {
    seen:
      wrong.length > 0
        ? `${wrong.length} of ${seen.length} wrong: ${wrong.slice(0, 3).join('; ')}`
        : `${faulty.length} faults raised, ${answers.length - faulty.length} complete answers whole`,
    detail: `${versionsOf(client.language)}\n\n${tableOf(answers)}`,
  }
  if (wrong.length > 0) throw new RefutedError(finding)
  return finding
}

/** Classes by fault and protocol. */
function tableOf(answers: readonly SeenAnswer[]): string {
  const protocols = [...new Set(answers.map(({ protocol }) => protocol))]
  const cell = (fault: string, protocol: string): string => {
    const raised = answers.filter((one) => one.fault === fault && one.protocol === protocol)
    const texts = raised.map((one) => (one.raised === null ? '**none**' : `${one.raised} ${one.status ?? ''}`.trim()))
    return [...new Set(texts)].join(', ')
  }
  const lines = faultNames.map(
    (fault) => `| \`${fault}\` | ${protocols.map((protocol) => cell(fault, protocol)).join(' | ')} |`,
  )
  return [`| fault | ${protocols.join(' | ')} |`, `| --- |${' --- |'.repeat(protocols.length)}`, ...lines].join('\n')
}

export const clientFaultRows: readonly Row[] = faultClients.map((client) => ({
  name: `client-faults-${client.name}`,
  says:
    `${client.title} raises an error for every fault that all engines have, through the gateway on Node and on ` +
    'Workers (with observe_share 1): error events before and within the output, streams without an end, cut and ' +
    'empty answers, HTML pages, 429.',
  missing: ({ processes }) => installClients(client.language, processes),
  run: (lab) => readFaults(lab, client),
}))
