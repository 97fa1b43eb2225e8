/** Faults before the first output: another engine serves, and the engine's failure counts. */
import { errorEvents } from '../../../../test/contracts/protocol-streams.ts'
import type { FakeAnswer } from '../../../../test/kit/fake-answer.ts'
import { eventually, expectEqual } from '../expectation.ts'
import type { CellRun, FieldCase } from '../field-case.ts'
import { PAIR } from '../pool-plan.ts'
import { answerOf, serves, streamOf, wholeStream } from '../replies.ts'

type Faults = Readonly<Record<string, FakeAnswer>>

/** Each fault of engine a: the client gets the answer of b, and one failure is counted for each. */
async function moveEach({ pool, fixture }: CellRun, faults: Faults, stream: boolean): Promise<void> {
  const before = await pool.failures('a')
  const right = stream ? wholeStream(fixture.stream!, 'from b') : fixture.answer('from b')
  for (const [what, fault] of Object.entries(faults)) {
    pool.script({ a: fault, b: serves(fixture, 'from b') })
    const { status, text, isWhole } = await pool.askAt('a', fixture, { stream })
    expectEqual(`${what}: answer`, { status, text, isWhole }, { status: 200, text: right, isWhole: true })
  }
  const count = Object.keys(faults).length
  await eventually(`failures after ${count} faults`, async () => (await pool.failures('a')) - before, count)
}

const streamed = (faultsOf: (cell: CellRun) => Faults): FieldCase => ({
  plan: PAIR,
  run: (cell) => moveEach(cell, faultsOf(cell), true),
})

const s8 = streamed(({ fixture }) => {
  const { opening } = fixture.stream!
  return {
    nothing: streamOf(),
    'a comment alone': streamOf(': keep-alive\n\n'),
    ...(opening === '' ? {} : { 'its opening alone': streamOf(opening) }),
    '[DONE] alone': streamOf('data: [DONE]\n\n'),
  }
})

const failedResponse = `event: response.failed\ndata: ${JSON.stringify({
  type: 'response.failed',
  response: { status: 'failed', error: { code: 'server_error', message: 'boom' } },
})}\n\n`

/** An error event by its form, alone and behind the opening. */
const errorsOf = ({ fixture }: CellRun, forms: readonly string[]): Faults => {
  const { opening } = fixture.stream!
  return Object.fromEntries(
    forms.flatMap((form) => [
      [form, streamOf(errorEvents[form]!)],
      [`${form}, after the opening`, streamOf(opening, `${errorEvents[form]!}data: [DONE]\n\n`)],
    ]),
  )
}

const S10_FORMS = ['longer than 1 KiB', 'flat', 'as a text']

const s9 = streamed((cell) => ({
  ...errorsOf(
    cell,
    Object.keys(errorEvents).filter((form) => !S10_FORMS.includes(form)),
  ),
  ...(cell.protocol === 'responses'
    ? { 'response.failed': streamOf(cell.fixture.stream!.opening, failedResponse) }
    : {}),
}))

const s10 = streamed((cell) => errorsOf(cell, S10_FORMS))

const documents: Faults = {
  'an error as JSON': answerOf(200, '{"error":{"message":"boom","type":"InternalServerError","code":500}}'),
  nothing: answerOf(200, ''),
  'a page': answerOf(200, '<html><body>Bad gateway</body></html>', { 'content-type': 'text/html' }),
}

const o4: FieldCase = {
  plan: PAIR,
  async run(cell) {
    await moveEach(cell, documents, false)
    if (cell.fixture.stream !== null) await moveEach(cell, documents, true)
  },
}

/** The head and the opening have been sent when the engine dies. */
const o23 = streamed(({ fixture }) => ({
  'a reset': { ...streamOf(fixture.stream!.opening || ': wait\n\n', 30), end: 'reset' },
  'a close': { ...streamOf(fixture.stream!.opening || ': wait\n\n', 30), end: 'truncate' },
}))

export const earlyFaults: Readonly<Record<string, FieldCase>> = { S8: s8, S9: s9, S10: s10, O4: o4, O23: o23 }
