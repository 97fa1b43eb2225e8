/** One conversation of an agent: the task, then a second prompt, in a folder of its own. */
import { spawn } from 'node:child_process'
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Agent, Setting } from './agents.ts'
import { AFTER, BEFORE, SECOND_PROMPT, taskPrompt } from './task.ts'

/** Lines of the file besides the one that is edited: about 2,500 tokens that only this conversation has. */
const LINES = 150

/** Sends everything but loopback to a closed port, in case the process has a network. */
const OFFLINE = {
  HTTP_PROXY: 'http://127.0.0.1:9',
  HTTPS_PROXY: 'http://127.0.0.1:9',
  NO_PROXY: '127.0.0.1,localhost',
}

export interface AgentTask {
  readonly agent: Agent
  /** Path of the agent's program. */
  readonly program: string
  /** Folder for this task; created. */
  readonly folder: string
  /** Of all tasks; `work` is set to the task's own folder. */
  readonly setting: Setting
  /** Of one turn of the user. */
  readonly limitS: number
}

export const envOf = (agent: Agent, setting: Setting): Record<string, string> => ({
  PATH: process.env['PATH'] ?? '',
  HOME: setting.home,
  TERM: 'dumb',
  ...OFFLINE,
  ...agent.env(setting),
})

export const fileOfTask = (folder: string): string => join(folder, 'work/settings.txt')

/** Runs the task and, if requested, a second turn. Rejects unless all three steps were done. */
export async function runTask(task: AgentTask, { secondTurn }: { readonly secondTurn: boolean }): Promise<void> {
  const { agent, folder } = task
  const isServed = agent.server !== undefined
  const home = isServed ? task.setting.home : join(folder, 'home')
  const setting = { ...task.setting, work: join(folder, 'work'), home }
  for (const path of [setting.work, setting.home]) mkdirSync(path, { recursive: true })
  const file = fileOfTask(folder)
  const lines = Array.from({ length: LINES }, (_, at) => `option_${at} = value ${at * 7919} of ${folder}`)
  writeFileSync(file, `${[...lines.slice(1), BEFORE, lines[0]].join('\n')}\n`)
  if (!isServed) agent.configure(setting)
  const env = envOf(agent, setting)
  await runProgram(task, agent.first(taskPrompt(file), setting), env)
  const content = readFileSync(file, 'utf8')
  if (!content.includes(AFTER) || content.includes(BEFORE)) throw new Error(`${agent.name}: the file was not edited`)
  if (!existsSync(`${file}.lines`)) throw new Error(`${agent.name}: the command did not run`)
  if (secondTurn) await runProgram(task, agent.next(SECOND_PROMPT, setting), env)
}

function runProgram(task: AgentTask, args: readonly string[], env: Record<string, string>): Promise<void> {
  const { agent, program, folder, limitS } = task
  const logFile = join(folder, 'output.log')
  const log = openSync(logFile, 'a')
  const child = spawn(program, args, { cwd: join(folder, 'work'), env, stdio: ['ignore', log, log] })
  closeSync(log)
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => child.kill('SIGKILL'), limitS * 1000)
    child.once('error', reject)
    child.once('exit', (code, signal) => {
      clearTimeout(timer)
      if (code === 0) return resolve()
      const end = readFileSync(logFile, 'utf8').trim().slice(-600)
      reject(new Error(`${agent.name} ended with ${code ?? signal}: ${end}`))
    })
  })
}
