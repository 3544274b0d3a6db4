import { anthropic, membersOf, namesOf, responseFile } from './client-types';

// What decides about a tool's money is read by its rule (gateway/families/demand.ts); the members
// that are listed here as free are those that do not. One that a client's types bring anew fails.

/** Members that cost nothing but tokens, or are the client's own, by the tool that has them. */
type Free = Record<string, string>;

const free_of_responses: Free = {
  FunctionTool: 'allowed_callers defer_loading description name output_schema parameters strict',
  CustomTool: 'allowed_callers defer_loading description format name',
  NamespaceTool: 'description name',
  ToolSearchTool: 'description execution parameters',
  ProgrammaticToolCalling: '',
  ApplyPatchTool: 'allowed_callers',
  LocalShell: '',
  ComputerTool: '',
  ComputerUsePreviewTool: 'display_height display_width environment',
  Mcp: `allowed_callers allowed_tools authorization connector_id defer_loading headers
    require_approval server_description server_label server_url tunnel_id`,
  WebSearchTool: 'filters search_context_size user_location',
  WebSearchPreviewTool: 'search_content_types search_context_size user_location',
  FileSearchTool: 'filters max_num_results ranking_options vector_store_ids',
  CodeInterpreter: 'allowed_callers',
  CodeInterpreterToolAuto: 'file_ids network_policy',
  FunctionShellTool: 'allowed_callers',
  ContainerAuto: 'file_ids network_policy skills',
  ContainerReference: 'container_id',
  LocalEnvironment: 'skills',
  // Its tokens are told, whatever makes them many.
  ImageGeneration: `action background input_fidelity input_image_mask moderation
    output_compression output_format partial_images quality size`,
};
const priced_of_responses: Free = {
  NamespaceTool: 'tools',
  CodeInterpreter: 'container',
  CodeInterpreterToolAuto: 'memory_limit',
  FunctionShellTool: 'environment',
  ContainerAuto: 'memory_limit',
  ImageGeneration: 'model',
};

const of_all = 'allowed_callers cache_control defer_loading name strict';
const free_of_messages: Free = {
  BetaTool: `${of_all} description eager_input_streaming input_examples input_schema`,
  BetaToolBash: `${of_all} input_examples`,
  BetaToolTextEditor: `${of_all} input_examples max_characters`,
  BetaToolComputerUse: `${of_all} display_height_px display_number display_width_px enable_zoom
    input_examples`,
  BetaComputerToolset: 'cache_control configs',
  BetaBrowserToolset: 'cache_control configs',
  BetaMemoryTool: `${of_all} input_examples`,
  BetaToolSearchToolBm25_: of_all,
  BetaToolSearchToolRegex: of_all,
  BetaMCPToolset: 'cache_control configs default_config mcp_server_name tools',
  BetaCodeExecutionTool: of_all,
  BetaWebSearchTool: `${of_all} allowed_domains blocked_domains response_inclusion user_location`,
  BetaWebFetchTool: `${of_all} allowed_domains blocked_domains citations max_content_tokens max_uses
    response_inclusion url_sources use_cache`,
  // Refused whole.
  BetaAdvisorTool: `${of_all} caching max_tokens max_uses model`,
};
const priced_of_messages: Free = { BetaWebSearchTool: 'max_uses' };

/** What stands in a tool and has members of its own. */
const inside = ['CodeInterpreterToolAuto', 'ContainerAuto', 'ContainerReference'];

test.each<[string, string, string[], Free, Free, number]>([
  [
    responseFile,
    'Tool',
    [...inside, 'LocalEnvironment'],
    free_of_responses,
    priced_of_responses,
    40,
  ],
  [anthropic, 'BetaToolUnion', [], free_of_messages, priced_of_messages, 60],
])('each member of the tools of %s is decided', (file, union, more, free, priced, least) => {
  const found = [...namesOf(file, union), ...more].flatMap((name) => {
    const undated = name.replace(/\d{8}$/, '');
    const decided = `type ${free[undated]} ${priced[undated]}`.split(/\s+/);
    return membersOf(file, name).map((member) => ({
      member: `${undated}.${member}`,
      is_decided: free[undated] !== undefined && decided.includes(member),
    }));
  });
  expect(found.length).toBeGreaterThan(least);
  expect(found.filter(({ is_decided }) => !is_decided)).toEqual([]);
});
