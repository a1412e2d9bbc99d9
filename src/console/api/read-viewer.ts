/** Who looks, and what the page may offer. */
import { maySeePrices, type Viewer } from '../access/viewer.ts';
import { type ConsoleApiDeps, noQuery, readCall, sourcesFor } from './console-call.ts';

export interface ViewerAnswer extends Viewer {
  readonly seesPrices: boolean;
  readonly flowNames: readonly string[];
  readonly sourceNames: readonly string[];
  readonly hasIntakes: boolean;
}

export const viewerCall = ({ settings }: ConsoleApiDeps) =>
  readCall('/api/viewer', noQuery, async ({ viewer }): Promise<ViewerAnswer> => {
    const { name, role, flows } = viewer;
    const flowNames = settings.flows.map((flow) => flow.name).filter((flow) => flows === 'all' || flows.includes(flow));
    return {
      name,
      role,
      flows,
      seesPrices: maySeePrices(viewer),
      flowNames,
      sourceNames: sourcesFor(viewer, settings),
      hasIntakes: flows === 'all' && settings.intakes.length > 0,
    };
  });
