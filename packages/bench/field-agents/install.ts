/** Installs an agent from npm into the cache, once for each version. */
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { installFailure } from '../conformance/install-failure.ts'
import type { Processes } from '../conformance/processes.ts'
import { inCache } from '../conformance/standalone.ts'
import type { Agent } from './agents.ts'

/** The largest has 250 MB. */
const INSTALL_LIMIT_S = 300

const folderOf = ({ name }: Agent): string => inCache('agents', name)

export const programOf = (agent: Agent): string => join(folderOf(agent), 'node_modules/.bin', agent.program)

/** Returns why the agent cannot run here. null: it is installed. */
export async function installAgent(agent: Agent, processes: Processes): Promise<string | null> {
  const { package: name, version } = agent
  if (installedVersion(agent) === version) return null
  const folder = folderOf(agent)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const command = ['npm', 'install', '--prefix', folder, '--no-audit', '--no-fund', `${name}@${version}`]
  try {
    await processes.finish({ what: `install ${name} ${version}`, command, folder, limitS: INSTALL_LIMIT_S })
    await processes.output([programOf(agent), '--version'])
    return null
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    return `${name} ${version} is not installed and cannot be fetched or started: ${installFailure(error)}`
  }
}

function installedVersion(agent: Agent): string | null {
  const file = join(folderOf(agent), 'node_modules', agent.package, 'package.json')
  if (!existsSync(file) || !existsSync(programOf(agent))) return null
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}
