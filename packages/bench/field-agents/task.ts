/** A task of three steps for a coding agent: read a file, edit it, run a command. Engines answer with its tool calls. */
import type { Answer } from './answer.ts'

type Json = Readonly<Record<string, unknown>>

export const BEFORE = 'colour = red'
export const AFTER = 'colour = green'

/** Lines of a user's log in the first prompt: about 2,500 tokens that only this conversation has. */
const LOG_LINES = 200

/** Names the file; engines find it in the conversation. */
export function taskPrompt(file: string): string {
  const log = Array.from({ length: LOG_LINES }, (_, at) => `line ${at}: warning 0x${hash(`${file} ${at}`)} in ${file}`)
  const steps =
    `Work on FILE=${file} in three steps: read it, replace '${BEFORE}' by '${AFTER}' in it, and then run ` +
    `the command 'wc -l ${file} > ${file}.lines'.`
  return `${steps} This is the log that made me ask:\n${log.join('\n')}`
}

export const SECOND_PROMPT = 'Thank you. Say in one sentence which steps you have done.'
export const LAST_WORDS = 'All three steps are done: the file was read and edited, and its lines were counted.'

interface Step {
  readonly text: string
  /** Arguments by the name of the tool; the first one that the agent offers is called. */
  readonly tools: Readonly<Record<string, (file: string) => Json>>
}

const shell = (command: (file: string) => string): Step['tools'] => ({
  Bash: (file) => ({ command: command(file), description: 'Run a step of the task' }),
  bash: (file) => ({ command: command(file), description: 'Run a step of the task' }),
  exec_command: (file) => ({ cmd: command(file) }),
  shell_command: (file) => ({ command: command(file) }),
  shell: (file) => ({ command: ['bash', '-c', command(file)] }),
})

const STEPS: readonly Step[] = [
  {
    text: 'First I read the file.',
    tools: {
      Read: (file) => ({ file_path: file }),
      read: (file) => ({ filePath: file }),
      ...shell((file) => `cat ${file}`),
    },
  },
  {
    text: 'Now I edit the file.',
    tools: {
      Edit: (file) => ({ file_path: file, old_string: BEFORE, new_string: AFTER }),
      edit: (file) => ({ filePath: file, oldString: BEFORE, newString: AFTER }),
      ...shell((file) => `sed -i 's/${BEFORE}/${AFTER}/' ${file}`),
    },
  },
  { text: 'Last I run the command.', tools: shell((file) => `wc -l ${file} > ${file}.lines`) },
]

/** The file of a conversation's task. null: this is no request of a task, such as one for a title. */
export function fileOf(body: Json): string | null {
  if (!Array.isArray(body['tools']) || body['tools'].length === 0) return null
  return /FILE=([\w./-]+)/.exec(textOf(body))?.[1] ?? null
}

/** Steps that are done: as many as there are results of tools. */
export const stepsDone = (body: Json): number =>
  textOf(body).match(/"type":"(?:tool_result|function_call_output)"|"role":"tool"/g)?.length ?? 0

const textOf = (body: Json): string => JSON.stringify(body['messages'] ?? body['input'] ?? [])

/** The next step of the task in this conversation. */
export function nextStep(body: Json): Answer {
  const file = fileOf(body)
  const done = stepsDone(body)
  const step = STEPS[done]
  const offered = new Set(toolNames(body['tools']))
  const tool = step === undefined ? undefined : Object.entries(step.tools).find(([name]) => offered.has(name))
  if (file === null || step === undefined || tool === undefined) return { text: LAST_WORDS, call: null }
  const [name, args] = tool
  return { text: step.text, call: { id: `call_${done}_${hash(file)}`, name, args: args(file) } }
}

function toolNames(tools: unknown): string[] {
  if (!Array.isArray(tools)) return []
  return tools.map((tool: { name?: string; function?: { name?: string } }) => tool.name ?? tool.function?.name ?? '')
}

function hash(text: string): string {
  let value = 7
  for (let at = 0; at < text.length; at++) value = (value * 31 + text.charCodeAt(at)) >>> 0
  return value.toString(36)
}
