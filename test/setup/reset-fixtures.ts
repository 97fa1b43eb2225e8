/** Runs before each test file: files share a process, and what a file draws by chance must not depend on the files before it. */
import { resetAdmissions } from '../contracts/cluster-fixtures.ts'

resetAdmissions()
