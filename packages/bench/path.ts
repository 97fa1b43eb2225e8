/**
 * `bench -- path`: code of features that are off on the path of a plain streamed chat. Counted: functions of the
 * features' files that run, and blocks of other functions that run only with the feature on.
 */
import { fork, spawn, type ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { documentOf, features, otherPlainChats, type Switch } from './path/features.ts'
import type { ChatAnswer, ChatOrder } from './path/one-chat.ts'
import { blocksOf, type Chat, chatOf, functionsOf, steadyFunctions } from './path/unconfigured-code.ts'
import type { BenchOptions, BenchResult, BenchRow } from './result.ts'

const SRC = fileURLToPath(new URL('../../src/', import.meta.url))

/** Requests whose coverage must agree, so that timers and probes in between do not count. */
const REQUESTS = 5

/** Processes whose coverage must agree, because estimators take other branches in each. */
const OFF_RUNS = 3
const ON_RUNS = 2

export default async function pathBench({ flags, note }: BenchOptions): Promise<BenchResult> {
  const engines = await Promise.all([startEngine(), startEngine()])
  try {
    const ports = engines.map(({ port }) => port)
    const off = await chats(orderOf(ports, {}), OFF_RUNS)
    const others: Chat[] = []
    for (const form of otherPlainChats) others.push(await chatsOf(orderOf(ports, form)))
    const only = typeof flags['feature'] === 'string' ? flags['feature'] : null
    const rows: BenchRow[] = []
    for (const feature of features.filter(({ name }) => only === null || name === only)) {
      const functions = functionsOf(feature, off)
      const blocksOfRun = async (plain: readonly Chat[]): Promise<string[]> =>
        blocksOf(feature, { off: plain, others, on: await chats(orderOf(ports, feature.on), ON_RUNS) }, SRC)
      const blocks = await recurring(await blocksOfRun(off), async () =>
        blocksOfRun(await chats(orderOf(ports, {}), OFF_RUNS)),
      )
      for (const line of [...functions, ...blocks]) note(`${feature.name}: ${line}`)
      rows.push({ feature: feature.name, functions: functions.length, blocks: blocks.length })
    }
    note(foldersOf(off[0]!))
    const found = rows.reduce((sum, row) => sum + Number(row['functions']) + Number(row['blocks']), 0)
    return { rows, headline: { unconfigured_functions: found, features: rows.length } }
  } finally {
    for (const { child } of engines) child.kill()
  }
}

/** Blocks that a second run finds, too. Others ran by chance: a cost model, for example, is fitted only at times. */
async function recurring(
  found: readonly string[],
  again: () => Promise<readonly string[]>,
): Promise<readonly string[]> {
  if (found.length === 0) return found
  const second = new Set(await again())
  return found.filter((block) => second.has(block))
}

interface Engine {
  readonly child: ChildProcess
  readonly port: number
}

async function startEngine(): Promise<Engine> {
  const file = new URL('proxy/stub-engine.ts', import.meta.url).pathname
  const child = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'inherit'] })
  const port = await new Promise<number>((resolve, reject) => {
    child.once('error', reject)
    child.stdout.once('data', (line: Buffer) => resolve((JSON.parse(String(line)) as { port: number }).port))
  })
  return { child, port }
}

function orderOf(ports: readonly number[], form: Switch): ChatOrder {
  const { token, headers = {}, body = {}, hasParts = false, isPoolRemote = false } = form
  const sent = token === undefined ? headers : { ...headers, authorization: `Bearer ${token}` }
  return { document: documentOf(ports, form), headers: sent, body, hasParts, isPoolRemote, requests: REQUESTS }
}

async function chats(order: ChatOrder, runs: number): Promise<Chat[]> {
  const all: Chat[] = []
  for (let run = 0; run < runs; run++) all.push(await chatsOf(order))
  return all
}

async function chatsOf(order: ChatOrder): Promise<Chat> {
  const child = fork(new URL('path/one-chat.ts', import.meta.url), { serialization: 'advanced' })
  const answer = await new Promise<ChatAnswer>((resolve, reject) => {
    child.once('message', (message) => resolve(message as ChatAnswer))
    child.once('error', reject)
    child.once('exit', (code) => reject(new Error(`the gateway ended with code ${code}`)))
    child.send(order)
  })
  const failed = answer.statuses.find((status) => status !== 200)
  if (failed !== undefined) throw new Error(`status ${failed} for ${JSON.stringify(order.document)}`)
  return chatOf(answer.requests)
}

/** Files, functions and calls of a plain chat by folder, as information. */
function foldersOf(off: Chat): string {
  const ran = steadyFunctions([off]).map(([first]) => first!)
  const folders = new Map<string, { files: Set<string>; functions: number; calls: number }>()
  for (const { file, ranges } of ran) {
    const folder = file
      .split('/')
      .slice(0, file.startsWith('core') || file.startsWith('platform') ? 2 : 1)
      .join('/')
    const one = folders.get(folder) ?? { files: new Set(), functions: 0, calls: 0 }
    folders.set(folder, one)
    one.files.add(file)
    one.functions++
    one.calls += ranges[0]!.count
  }
  const lines = [...folders].map(
    ([folder, { files, functions, calls }]) => `${folder}: ${files.size} files, ${functions} functions, ${calls} calls`,
  )
  const files = new Set(ran.map(({ file }) => file)).size
  const calls = ran.reduce((sum, { ranges }) => sum + ranges[0]!.count, 0)
  return [`plain chat: ${files} files, ${ran.length} functions, ${calls} calls`, ...lines].join('\n')
}
